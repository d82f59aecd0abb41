"""What a GPU is, as plain data: limits, rates and peaks of one named part."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU part. Numbers are the vendor's dense figures at boost clock unless a name says so.

    A peak of 0.0 means that the part has no such unit. Tensor peaks accumulate in float32
    (int32 for int8), which is half the advertised float16-accumulate figure on GeForce parts.
    """

    name: str  # "h100"
    title: str  # "NVIDIA H100 SXM"
    compute_capability: tuple[int, int]
    sms: int
    boost_mhz: float

    memory_bytes: int
    memory_gbps: float  # the pins' rate; a copy reaches about 0.9 of it
    l2_bytes: int
    l2_gbps: float  # sustained reads that hit, see targets/catalogue.py for the origin

    fp64_tflops: float
    fp32_tflops: float
    fp16_tflops: float  # packed half2 arithmetic on the ordinary pipes
    tensor_fp64_tflops: float
    tensor_tf32_tflops: float
    tensor_fp16_tflops: float
    tensor_bf16_tflops: float
    tensor_fp8_tflops: float
    tensor_int8_tops: float

    fp32_lanes_per_sm: int
    fp64_lanes_per_sm: int
    int32_lanes_per_sm: int
    sfu_lanes_per_sm: int
    shared_bytes_per_cycle: int  # per SM; the L1 data path has the same width

    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm_bytes: int
    shared_per_block_bytes: int  # with opt-in; 48 KiB without
    shared_reserved_bytes: int  # taken from every block by the system
    shared_granule_bytes: int
    barriers_per_sm: int  # pool of named barriers that resident blocks share
    threads_per_block: int = 1024
    registers_per_thread: int = 255
    register_granule: int = 256  # registers, allocated for a warp at a time
    schedulers_per_sm: int = 4

    @property
    def arch(self) -> str:
        """The name compilers use, with the architecture-specific features of 9.0 and later.

        >>> from warpsmith import targets
        >>> targets.get("h100").arch, targets.get("a100").arch
        ('sm_90a', 'sm_80')
        """
        major, minor = self.compute_capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // 32

    def tensor_tflops(self, kind: str) -> float:
        """Dense tensor peak for "fp64", "tf32", "fp16", "bf16", "fp8" or "int8"; 0.0 if absent."""
        unit = "tops" if kind == "int8" else "tflops"
        return float(getattr(self, f"tensor_{kind}_{unit}", 0.0))
