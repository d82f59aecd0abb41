"""A Triton function as a launchable object: Triton's own launch on CUDA tensors, the virtual GPU on CPU ones."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import targets
from ..devices import arguments, limits
from ..devices.launch import launch
from ..devices.observe import Session, current
from ..errors import CompileError, KernelFault, LaunchError, UsageError, WarpsmithError
from ..spec import Artifact, Launch, Target
from ..toolchains import triton as toolchain
from .kernel import in_force


def triton(fn: Any, kernel: str | None = None) -> TritonKernel:
    """A launchable kernel from a function under `@triton.jit`, `@triton.autotune` or
    `@triton.heuristics`, or from the text of a Python module that defines one.

        scale = ws.triton(scale_kernel)
        scale[(n + 1023) // 1024,](x, out, n, BLOCK=1024, num_warps=4)

    kernel: which function of a text, where it defines several. Raises UsageError for anything else.
    """
    if isinstance(fn, str):
        fn = toolchain.from_text(fn, kernel)
    if isinstance(fn, TritonKernel):
        return fn
    toolchain.base(fn)
    return TritonKernel(fn)


class TritonKernel:
    """`kernel[grid](*args, **constants)`: grid is an int, a tuple of up to three, or a function of
    the arguments by name that gives one.

    On CPU tensors the kernel runs on the virtual GPU, compiled for the target in force; an autotuned
    one takes its first configuration, or `config=` (an index or a triton.Config). On CUDA tensors
    Triton itself tunes and launches it.
    """

    def __init__(self, fn: Any):
        self.fn = fn
        self.name = toolchain.name_of(fn)
        self._last: dict[str, Artifact] = {}

    def __repr__(self) -> str:
        return f"ws.triton({self.name})"

    def __deepcopy__(self, memo: object) -> TritonKernel:
        return self  # models that hold kernels can be copied

    def __getitem__(self, grid: Any) -> TritonLauncher:
        return TritonLauncher(self, grid)

    def artifact(
        self,
        target: Target | str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """The kernel compiled for a target and these arguments; without arguments, the one that the
        last virtual launch for that target used. Raises UsageError where there was none.
        """
        part = targets.get(target) if isinstance(target, str) else target
        part = part or in_force(None, args)
        if args or kwargs:
            return self.bind(part, args, kwargs or {}).program.artifact
        if part.name not in self._last:
            raise UsageError(
                f"{self!r} has not been launched for {part.name}: Triton compiles for the types of "
                "the arguments. Pass them: kernel.artifact(target, args, kwargs)"
            )
        return self._last[part.name]

    @property
    def ptx(self) -> str:
        """PTX of the last virtual launch, for the target in force."""
        return self.artifact().ptx

    def bind(self, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        call = toolchain.bind(self.fn, target, args, kwargs)
        self._last[target.name] = call.program.artifact
        return call


class TritonLauncher:
    """`kernel[grid]`: call it with the kernel's arguments."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: TritonKernel, grid: Any):
        self.kernel, self.grid = kernel, grid

    def __repr__(self) -> str:
        return f"{self.kernel!r}[{self.grid}]"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch. Raises CompileError, LaunchError, DtypeError or KernelFault."""
        everything = [_base(value) for value in (*args, *kwargs.values())]
        index = arguments.cuda_index(everything)
        if index is not None:
            if not arguments.all_on(index, everything):
                arguments.place_of(self.kernel.name, everything)
            _launch_natively(self.kernel, self.grid, index, args, kwargs)
        else:
            _launch_virtually(self.kernel, self.grid, args, kwargs)


def _launch_virtually(
    kernel: TritonKernel, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    target = in_force(None, ())
    call = kernel.bind(target, args, kwargs)
    artifact = call.program.artifact
    shape = limits.triple(kernel.name, "grid", grid(call.named) if callable(grid) else grid)
    shape = (shape[0] * artifact.cluster[0], shape[1], shape[2])
    values = list(_expanded(kernel.name, call))
    launch(
        artifact,
        shape,
        artifact.threads,
        artifact.shared_bytes,
        [*values, *_scratch(call.program, shape, len(values))],
        cooperative=call.program.cooperative,
        target=target,
    )


def _is_descriptor(value: Any) -> bool:
    return hasattr(value, "block_shape") and hasattr(value, "base")


def _base(value: Any) -> Any:
    """The tensor of a host-side descriptor, or the value."""
    return value.base if _is_descriptor(value) else value


def _expanded(name: str, call: Any) -> Iterator[Any]:
    """The values of a call, with each host-side descriptor as what the kernel takes for it."""
    how = iter(call.program.descriptors)
    for value in call.values:
        if not _is_descriptor(value):
            yield value
            continue
        found, sizes = next(how), [*value.shape, *value.strides]
        if found is not None:
            yield _tensor_map(name, value, found)
        else:
            extra = [value.padding == "nan", getattr(value, "round_f32_to_tf32", None)]
            yield from (value.base, *sizes, *(bool(e) for e in extra if e is not None))
        yield from sizes


def _tensor_map(name: str, value: Any, how: Mapping[str, Any]) -> Any:
    """A tensor map for the virtual GPU, as Triton asks the driver for one."""
    from ..devices import tensor_map

    if how["fp4_padded"]:
        raise UsageError(
            f"{name}: a descriptor of 4-bit elements in padded rows is not there on the virtual "
            "GPU. Make the descriptor in the kernel, or load by pointers"
        )
    tensor = value.base.as_strided(tuple(value.shape), tuple(value.strides))
    return tensor_map(
        tensor,
        how["block_size"],
        swizzle=(0, 32, 64, 128)[how["swizzle"]],
        fill="nan" if value.padding == "nan" else "zero",
        dtype="tfloat32" if getattr(value, "round_f32_to_tf32", False) else "",
    )


def _scratch(program: Any, grid: limits.Triple, visible: int) -> list[Any]:
    """The hidden arguments: global memory for every program where Triton asks for it, else null."""
    hidden: list[Any] = [None] * (len(program.artifact.parameters) - visible)
    if program.scratch_bytes and hidden:
        import torch

        size = program.scratch_bytes * grid[0] * grid[1] * grid[2]
        hidden[0] = torch.zeros(size, dtype=torch.uint8)
    return hidden


def _launch_natively(
    kernel: TritonKernel, grid: Any, index: int, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Triton's own launch, tuning and caches, on a CUDA device."""
    import torch

    from ..devices.cuda import gpu_at

    gpu = gpu_at(index)
    gpu.check_alive(kernel.name)
    fn, given = kernel.fn, {"enable_fp_fusion": True, **kwargs}
    if "config" in kwargs:
        fn, given, hooks = toolchain.settle(fn, args, given)
        for hook in hooks:
            hook()
    shape = _Grid(kernel.name, grid)
    here = torch.cuda.current_device() == index
    try:
        with contextlib.nullcontext() if here else torch.cuda.device(index):
            handle = fn[shape](*args, **given)
    except WarpsmithError:
        raise
    except Exception as error:
        raise native_error(kernel, gpu, error) from error
    gpu.recent.append(kernel.name)
    session = current()
    if session is not None:
        _observe(session, kernel, handle, shape.last)
        if session.synchronous:
            gpu.synchronize(kernel.name)


class _Grid:
    """A grid as Triton wants it, that remembers what it came to."""

    def __init__(self, name: str, grid: Any):
        self.name, self.grid, self.last = name, grid, (1, 1, 1)

    def __call__(self, meta: Mapping[str, Any]) -> limits.Triple:
        given = self.grid(meta) if callable(self.grid) else self.grid
        self.last = limits.triple(self.name, "grid", given)
        return self.last


def _observe(session: Session, kernel: TritonKernel, handle: Any, grid: limits.Triple) -> None:
    meta = getattr(handle, "metadata", None)
    if meta is None:
        session.note(f"{kernel.name}: Triton {toolchain.version()} does not say what it launched")
        return
    registers = getattr(handle, "n_regs", None)
    facts = {
        "name": kernel.name,
        "entry": meta.name,
        "arch": f"sm_{meta.target.arch}",
        "language": "triton",
        "registers": registers,
        "spill_bytes": getattr(handle, "n_spills", None),
        "static_shared_bytes": 0,
        "artifact": meta.hash[:12],
    }
    if facts not in session.kernels:
        session.kernels.append(facts)
    session.launches.append(
        Launch(
            kernel=kernel.name,
            grid=grid,
            block=(meta.num_warps * 32, 1, 1),
            shared_bytes=meta.shared,
            registers=registers,
            artifact=meta.hash[:12],
        )
    )


# what Triton's driver says: the kind of KernelFault
_NATIVE_FAULTS = (
    (re.compile(r"illegal memory access", re.I), "illegal-access"),
    (re.compile(r"misaligned address", re.I), "misaligned"),
    (re.compile(r"device-side assert", re.I), "assert"),
    (re.compile(r"illegal instruction", re.I), "trap"),
    (re.compile(r"unspecified launch failure", re.I), "illegal-access"),
)


def native_error(kernel: TritonKernel, gpu: Any, error: Exception) -> Exception:
    """The typed error of what Triton raised at a launch on a CUDA device."""
    text = str(error).strip()
    for pattern, kind in _NATIVE_FAULTS:
        if pattern.search(text):
            gpu.lost = f"the context died: {text}"
            return KernelFault(
                kind, f"{text}. On CPU tensors the virtual GPU names the line", kernel.name
            )
    kind_name = type(error).__name__
    if kind_name == "OutOfResources":
        return LaunchError(f"{kernel.name}: {text}")
    if kind_name in (
        "CompilationError",
        "UnsupportedLanguageConstruct",
        "CompileTimeAssertionFailure",
        "PTXASError",
    ):
        found: CompileError = toolchain.failure(toolchain.base(kernel.fn), error)
        return found
    if isinstance(error, (TypeError, KeyError, ValueError)):
        names = ", ".join(toolchain.base(kernel.fn).arg_names)
        return UsageError(f"{kernel.name}: {text}. Its parameters are {names}")
    return error
