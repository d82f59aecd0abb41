"""The modelled time is monotone, ranks known kernels in the known order and names its bound."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import replace

import pytest

from warpsmith import targets
from warpsmith.errors import LaunchError, UsageError
from warpsmith.measure.model import CONSTANTS, LaunchShape, OpCost, model_ops, model_time

pytestmark = pytest.mark.plain

LOAD = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
STORE = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
SHARED_LOADS = "smsp__sass_inst_executed_op_shared_ld.sum"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
H100, H200 = targets.get("h100"), targets.get("h200")
LAUNCH = CONSTANTS["launch"].value


def vadd(n: int, stride: int = 1, width: int = 1) -> tuple[dict[str, float], LaunchShape]:
    """out[i] = x[i * stride] + y[i * stride], float32, `width` of them a thread, 256 threads a block."""
    warps = n // 32 // width
    sectors = min(4 * stride, 32) * width
    unique = n * 4 * min(stride, 8)
    counts = {
        LOAD.format("requests"): 2 * warps,
        LOAD.format("sectors"): 2 * warps * sectors,
        STORE.format("requests"): warps,
        STORE.format("sectors"): 4 * warps * width,
        "unique_bytes_read": 2 * unique,
        "unique_bytes_written": 4 * n,
        "warp_instructions": 20 * warps,
        "pipe_fp32_warp_instructions": warps * width,
        "pipe_int_warp_instructions": 10 * warps,
    }
    return counts, LaunchShape((n // 256 // width,), (256,), 0, 16)


def matmul(
    size: int, tile: int, per_thread: int, *, shared: bool = True, sectors_per_load: float = 4.0
):
    """float32 matmul, one block per tile², per_thread results a thread, as closed-form counters."""
    fma_warps = size**3 / 32
    threads = tile * tile // per_thread
    root = per_thread**0.5
    loads = 2 * size**3 / tile / 32 if shared else 2 * fma_warps
    shared_loads = fma_warps * 2 / root if shared else 0
    counts = {
        "pipe_fp32_warp_instructions": fma_warps,
        "warp_instructions": fma_warps * (1.2 + 0.2 / root) + loads + shared_loads,
        LOAD.format("requests"): loads,
        LOAD.format("sectors"): loads * sectors_per_load,
        STORE.format("requests"): size**2 / 32,
        STORE.format("sectors"): size**2 / 8,
        SHARED_LOADS: shared_loads,
        SHARED_WAVEFRONTS: shared_loads,
        "unique_bytes_read": 8.0 * size**2,
        "unique_bytes_written": 4.0 * size**2,
        "barriers": 2 * (size / 16) * (size / tile) ** 2 * threads / 32 if shared else 0,
    }
    shape = LaunchShape(
        (size // tile, size // tile), (threads,), 8 * tile * 16 if shared else 0, 64
    )
    return counts, shape


def total(work, target=H100, **options) -> float:
    return model_time(*work, target, **options).total_us


def test_a_large_sum_runs_at_memory_speed_with_wide_loads():
    """Measured on this part: 4320 GB/s with 16 bytes a thread, 3350 with 4 (kernels_h200)."""
    wide, narrow = (model_time(*vadd(1 << 28, width=w), H200) for w in (4, 1))
    assert wide.bound == "dram"
    assert 12 * (1 << 28) / wide.total_us / 1e3 == pytest.approx(4320, rel=0.2)
    assert 12 * (1 << 28) / narrow.total_us / 1e3 == pytest.approx(3350, rel=0.25)


def test_a_tiny_kernel_is_bound_by_its_launch():
    modelled = model_time(*vadd(1024), H100)
    assert modelled.bound == "launch"
    assert LAUNCH < modelled.total_us < 2 * LAUNCH


def test_every_term_is_monotone_in_its_counter():
    counts, shape = matmul(1024, 64, 16)
    counts |= {
        "global_atomic_sectors": 1e5,
        "tensor_flops_bf16": 1e9,
        "pipe_sfu_warp_instructions": 1e5,
    }
    base = model_time(counts, shape, H100).total_us
    for name in counts:
        if name in ("unique_bytes_read",):
            continue
        assert model_time(counts | {name: counts[name] * 4}, shape, H100).total_us >= base, name


@pytest.mark.parametrize("factor", [1.01, 2, 8, 32])
def test_more_sectors_are_never_faster(factor):
    counts, shape = vadd(1 << 22)
    sectors = LOAD.format("sectors")
    more = counts | {sectors: counts[sectors] * factor}
    assert total((more, shape)) >= total((counts, shape))


@pytest.mark.parametrize("name", ["t4", "a100", "rtx4090", "h100", "b200"])
def test_strided_is_slower_than_contiguous(name):
    part = targets.get(name)
    times = [total(vadd(1 << 24, stride), part) for stride in (1, 2, 4, 8, 33)]
    assert times == sorted(times)
    assert times[-1] > 3 * times[0]


def test_bank_conflicts_cost():
    counts, shape = matmul(2048, 64, 16)
    conflicted = counts | {SHARED_WAVEFRONTS: 16 * counts[SHARED_WAVEFRONTS]}
    clean, slow = model_time(counts, shape, H100), model_time(conflicted, shape, H100)
    assert slow.bound == "l1"
    assert slow.total_us > 3 * clean.total_us


def test_float32_matmul_turns_compute_bound_with_k():
    small, large = (model_time(*matmul(size, 128, 64), H100) for size in (128, 4096))
    assert small.bound in ("launch", "latency")
    assert large.bound in ("fp32", "issue")


def test_the_sgemm_ladder_keeps_its_order():
    """Published ladder on an RTX A6000 at 4096³ (siboehm/SGEMM_CUDA), GFLOP/s:
    uncoalesced 309, coalesced 1986, shared tile 2980, 8 results a thread 8475, 64 results 15972."""
    size, part = 4096, targets.get("rtxa6000")
    ladder = {
        309: matmul(size, 32, 1, shared=False, sectors_per_load=16.5),
        1986: matmul(size, 32, 1, shared=False, sectors_per_load=2.5),
        2980: matmul(size, 32, 1),
        8475: matmul(size, 64, 8),
        15972: matmul(size, 128, 64),
    }
    rates = {known: 2 * size**3 / total(work, part) / 1e3 for known, work in ladder.items()}
    assert list(rates.values()) == sorted(rates.values())
    for known, modelled in rates.items():
        assert known / 2.1 < modelled < known * 2.1  # the worst is 2.02, of the coalesced one


def tensor_matmul(m: int, n: int, k: int, tile=(128, 256)) -> tuple[dict[str, float], LaunchShape]:
    """bf16 warpgroup matmul, one tile a block, bulk copies; pairs of blocks share the columns."""
    flops, blocks = 2.0 * m * n * k, (m // tile[0]) * (n // tile[1])
    copied = blocks * k * 2.0 * (tile[0] + tile[1] / 2)
    counts = {
        "tensor_flops_bf16": flops,
        "warpgroup_mma_flops": flops,
        "async_copy_sectors": copied / 32,
        "async_copy_requests": copied / 16384,
        "unique_bytes_read": 2.0 * k * (m + n),
        "unique_bytes_written": 2.0 * m * n,
        STORE.format("requests"): m * n / 256,
        STORE.format("sectors"): m * n / 16,
        "warp_instructions": blocks * 12 * (k / 64 * 10 + 400),
    }
    return counts, LaunchShape((blocks,), (384,), 200 * 1024, 168)


def test_tensor_matmul_meets_the_measured_rates():
    """Measured bf16 rates on this part: 8192³ 769 to 798, 4096³ about 765 TFLOP/s."""
    modelled = model_time(*tensor_matmul(8192, 8192, 8192), H200)
    assert modelled.bound == "tensor"
    assert 2 * 8192**3 / modelled.total_us / 1e6 == pytest.approx(780, rel=0.15)


def test_a_thin_matmul_is_bound_by_memory():
    assert model_time(*tensor_matmul(128, 8192, 8192, (128, 64)), H200).bound in ("dram", "l2")


def test_warp_level_mma_on_hopper_is_slower_than_warpgroup():
    counts, shape = tensor_matmul(8192, 8192, 8192)
    assert total((counts | {"warpgroup_mma_flops": 0}, shape)) > 1.3 * total((counts, shape))


def test_a_partial_wave_wastes_the_rest():
    full, over = tensor_matmul(128 * 132, 256, 8192), tensor_matmul(128 * 133, 256, 8192)
    assert total(over) > 1.5 * total(full)


def test_a_grid_smaller_than_the_machine_pays():
    counts, shape = matmul(1024, 128, 64)
    few = replace(shape, grid=(1,))
    assert total((counts, few)) > 10 * total((counts, shape))


def test_lower_occupancy_is_never_faster():
    counts, shape = vadd(1 << 22)
    times = [total((counts, replace(shape, registers=r))) for r in (16, 64, 128, 255)]
    assert times == sorted(times)


def test_a_warm_footprint_skips_dram():
    work = vadd(1 << 20)
    warm = model_time(*work, H100, cold=False)
    assert "dram" not in warm.terms
    assert warm.total_us < total(work)
    assert total(vadd(1 << 28), cold=False) == total(vadd(1 << 28))


def test_faster_parts_are_modelled_faster():
    order = ["t4", "a10", "a100", "h100", "h200"]
    times = [total(vadd(1 << 26), targets.get(name)) for name in order]
    assert times == sorted(times, reverse=True)


def test_assumptions_name_every_constant():
    said = "\n".join(model_time(*vadd(1024), H100).assumptions)
    assert all(name in said for name in CONSTANTS)


def test_an_object_with_as_dict_will_do():
    counts, shape = vadd(1024)

    class Counted:
        def as_dict(self):
            return counts

    assert model_time(Counted(), shape, H100) == model_time(counts, shape, H100)


def test_nothing_counted_is_refused():
    with pytest.raises(UsageError, match="counting on"):
        model_time({}, LaunchShape((1,), (32,)), H100)


def test_a_block_that_does_not_fit_is_refused():
    counts, shape = vadd(1024)
    with pytest.raises(LaunchError, match="shared"):
        model_time(counts, replace(shape, shared_bytes=300_000), H100)


def test_an_empty_grid_is_refused():
    counts, shape = vadd(1024)
    with pytest.raises(LaunchError, match="no block"):
        model_time(counts, replace(shape, grid=(0,)), H100)


def test_a_part_without_the_unit_is_refused():
    with pytest.raises(LaunchError, match="no tensor unit for bf16"):
        model_time(
            {"warp_instructions": 1.0, "tensor_flops_bf16": 1.0},
            LaunchShape((1,), (32,)),
            targets.get("t4"),
        )


def chain(n: int) -> list[OpCost]:
    return [OpCost(f"op{i}", 4.0 * n, 4.0 * n, flops=n) for i in range(4)]


def test_eager_small_operators_wait_for_the_host():
    eager, graph = model_ops(chain(1024), H100), model_ops(chain(1024), H100, graphed=True)
    assert eager.bound == "host"
    assert eager.total_us == pytest.approx(sum(eager.terms.values()))
    assert graph.bound == "launch"
    assert graph.total_us < eager.total_us


def test_fusion_wins_on_large_tensors_by_the_bytes():
    n = 1 << 28
    eager = model_ops(chain(n), H100)
    fused = model_ops([OpCost("fused", 4.0 * n, 4.0 * n, flops=4 * n)], H100)
    assert eager.bound == "dram"
    assert eager.total_us / fused.total_us == pytest.approx(4, rel=0.02)


def test_one_operator_agrees_with_its_kernel():
    n = 1 << 26
    kernel = total(vadd(n, width=4))
    operator = model_ops([OpCost("add", 8.0 * n, 4.0 * n, flops=n)], H100).total_us
    assert operator == pytest.approx(kernel, rel=0.15)


def test_tensor_operators_use_the_tensor_peak():
    size = 8192
    cost = OpCost("mm", 4.0 * size**2, 2.0 * size**2, 2.0 * size**3, "tensor_bf16")
    modelled = model_ops([cost], H200)
    assert modelled.bound == "tensor"
    assert 2 * size**3 / modelled.total_us / 1e6 == pytest.approx(780, rel=0.05)


def test_no_operators_and_unknown_pipes_are_refused():
    with pytest.raises(UsageError, match="at least one"):
        model_ops([], H100)
    with pytest.raises(UsageError, match="no pipe"):
        model_ops([OpCost("x", 1, 1, 1, "quantum")], H100)


def test_static_shared_memory_limits_what_is_resident():
    """A launch records its dynamic bytes; those that the kernel declares are in its build facts."""
    from warpsmith.measure.modelled import candidate_time
    from warpsmith.spec import Launch, Outcome, Run

    counts, shape = vadd(1 << 24)
    launch = Launch(
        kernel="f", grid=(*shape.grid, 1, 1), block=(256, 1, 1), shared_bytes=0, registers=16,
        artifact="a", counters=counts,
    )  # fmt: skip

    def modelled_us(static: int) -> float:
        facts = {"name": "f", "artifact": "a", "static_shared_bytes": static}
        return candidate_time(Run(Outcome.RIGHT, launches=(launch,), kernels=(facts,)), H200)[1]

    assert modelled_us(48 * 1024) > 1.1 * modelled_us(0)
