"""A CUDA C++ kernel as a Python object: compiled when first launched, run where its tensors are."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import targets
from ..devices import arguments
from ..devices.launch import DEFAULT_TARGET, launch
from ..devices.observe import current
from ..errors import CandidateError, LaunchError
from ..spec import Artifact, Target
from ..toolchains import cuda as toolchain
from ..toolchains import signature

if TYPE_CHECKING:
    from ..devices.cuda import Function


def cuda(
    source: str | Path,
    kernel: str | None = None,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, Any] | None = None,
    target: Target | str | None = None,
) -> Kernel:
    """A kernel of a CUDA C++ file, or of a text of several lines.

    source: a path, relative to the Python file that calls, or CUDA source (it has a newline).
    kernel: which one, where the source has several: a name, or an instantiation of a template such
    as "softmax<float, 4>". options: NVRTC's, -I and -D among them. defines: macros. target: compile
    for this one always; without it for the one in force: the CUDA device of the tensors, else the
    enclosing `observe`'s, else an H100.

        softmax = ws.cuda("softmax.cu", "softmax<float>", defines={"BLOCK": 256})
        softmax[rows, 256](x, out, rows, cols)

    Raises UsageError where there is no such file or the kernel has to be named; the first launch
    raises CompileError.
    """
    names = sys._getframe(1).f_globals
    here = _folder_of_caller(names)
    if isinstance(source, str) and "\n" in source:
        name, line = _place_of_text(source, names)
        return Kernel(source, name, here, kernel, options, defines, target, first_line=line)
    path = here / source
    return Kernel(
        toolchain.read_source(path), path.name, path.parent, kernel, options, defines, target,
        shown=str(source),
    )  # fmt: skip


class Kernel:
    """One kernel of a CUDA source; `kernel[grid, block]` or `kernel[grid, block, shared_bytes]`
    gives a function of its arguments. `name` is bare of namespaces and template arguments.

    grid and block are ints or tuples of up to three. CPU tensors run on the virtual GPU, CUDA
    tensors on their device, on the current stream. `cooperative[...]` launches a cooperative grid.
    """

    def __init__(
        self,
        text: str,
        name: str,
        folder: Path,
        kernel: str | None = None,
        options: Sequence[str] = (),
        defines: Mapping[str, Any] | None = None,
        target: Target | str | None = None,
        *,
        shown: str = "",
        first_line: int = 1,
    ):
        self.source, self.source_name, self.folder = text, name, folder
        self.kernel, self.options, self.defines = kernel, tuple(options), dict(defines or {})
        self.target = targets.get(target) if isinstance(target, str) else target
        self._shown, self._first_line = shown, first_line
        self._artifacts: dict[str, Artifact] = {}
        self._loaded: Function | None = None  # where the last launch was, on a CUDA device
        declared = signature.kernels(text)
        self._check_named(declared)
        self.name = _bare(kernel) if kernel else declared[0].name if declared else name

    def __repr__(self) -> str:
        parts = [repr(self._shown) if self._shown else f"<source of {len(self.source)} characters>"]
        parts += [repr(self.kernel)] if self.kernel else []
        parts += [f"options={list(self.options)!r}"] if self.options else []
        parts += [f"defines={self.defines!r}"] if self.defines else []
        parts += [f"target={self.target.name!r}"] if self.target else []
        return f"ws.cuda({', '.join(parts)})"

    def artifact(self, target: Target | str | None = None) -> Artifact:
        """The kernel compiled for a target; without one, for the target in force.

        Raises CompileError at the user's file and line, MissingTool, or UsageError.
        """
        if isinstance(target, str):
            target = targets.get(target)
        target = target or in_force(self.target, ())
        if target.arch not in self._artifacts:
            found = toolchain.compile_source(
                self.source,
                target,
                name=self.source_name,
                kernel=self.kernel,
                folder=self.folder,
                options=self.options,
                defines=self.defines,
                first_line=self._first_line,
            )
            self._artifacts[target.arch] = toolchain.select(found, self.kernel, self.source_name)
        return self._artifacts[target.arch]

    def __deepcopy__(self, memo: object) -> Kernel:
        return self  # it never changes: models that hold kernels can be copied

    @property
    def ptx(self) -> str:
        """PTX for the target in force."""
        return self.artifact().ptx

    def __getitem__(self, shape: Any) -> Launcher:
        if type(shape) is tuple and len(shape) == 2:
            return Launcher(self, *shape)
        return Launcher(self, *_shape(self.name, shape))

    @property
    def cooperative(self) -> Cooperative:
        """As the kernel itself, with every block resident at once: for grid-wide barriers."""
        return Cooperative(self)

    def _check_named(self, declared: Sequence[signature.Declared]) -> None:
        if self.kernel is not None:
            return
        if len(declared) == 1 and declared[0].template:
            name = declared[0].name
            raise CandidateError(
                f"{self.source_name}: {name} is a template: name an instantiation, for example "
                f"ws.cuda({self._shown or '…'!r}, '{name}<float>')"
            )
        if len(declared) > 1:
            names = ", ".join(k.name + ("<…>" if k.template else "") for k in declared)
            raise CandidateError(
                f"{self.source_name} defines {len(declared)} kernels: {names}. Say which: "
                f"ws.cuda({self._shown or '…'!r}, {declared[0].name!r})"
            )


class Launcher:
    """`kernel[grid, block]`: call it with the kernel's arguments."""

    __slots__ = ("block", "cooperative", "grid", "kernel", "shared_bytes")

    def __init__(self, kernel: Kernel, grid: Any, block: Any, shared_bytes: Any = 0):
        self.kernel, self.grid, self.block = kernel, grid, block
        self.shared_bytes, self.cooperative = shared_bytes, False

    def __repr__(self) -> str:
        shared = f", {self.shared_bytes}" if self.shared_bytes else ""
        return f"{self.kernel!r}[{self.grid}, {self.block}{shared}]"

    def __call__(self, *args: Any) -> None:
        """Launch. See `devices.launch.launch` for arguments and errors."""
        kernel, sizes = self.kernel, (self.grid, self.block, self.shared_bytes)
        loaded = kernel._loaded
        if loaded is not None and loaded.again(*sizes, self.cooperative, args):
            return
        target = in_force(kernel.target, args)
        kernel._loaded = launch(
            kernel.artifact(target), *sizes, args, cooperative=self.cooperative, target=target
        )


class Cooperative:
    """`kernel.cooperative[grid, block]`: a launch whose blocks may wait for each other."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def __repr__(self) -> str:
        return f"{self.kernel!r}.cooperative"

    def __getitem__(self, shape: Any) -> Launcher:
        launcher = self.kernel[shape]
        launcher.cooperative = True
        return launcher


def in_force(given: Target | None, args: Sequence[Any]) -> Target:
    """The target to compile for: the given one, the CUDA device's, the session's, or the default."""
    if given is not None:
        return given
    index = arguments.cuda_index(args)
    if index is not None:
        from ..devices.cuda import gpu_at

        return gpu_at(index).target
    session = current()
    return (session and session.target) or targets.get(DEFAULT_TARGET)


def _shape(name: str, shape: Any) -> tuple[Any, ...]:
    if not isinstance(shape, tuple) or len(shape) not in (2, 3):
        raise LaunchError(
            f"{name}[{shape!r}]: expected kernel[grid, block] or kernel[grid, block, shared_bytes], "
            "where grid and block are ints or tuples: kernel[(8, 4), 256]"
        )
    return shape


def _bare(kernel: str) -> str:
    """The name without namespaces and template arguments."""
    return kernel.partition("<")[0].rsplit("::", 1)[-1].strip()


def _place_of_text(text: str, names: Mapping[str, Any]) -> tuple[str, int]:
    """The Python file that holds a source as a literal, and its line there; else 'kernel.cu', 1."""
    file = names.get("__file__")
    lines = linecache.getlines(str(file), dict(names)) if file else []
    line = toolchain.line_of(text, "".join(lines))
    return (Path(str(file)).name, line) if line else ("kernel.cu", 1)


def _folder_of_caller(names: Mapping[str, Any]) -> Path:
    """The folder of the Python file that called; the working folder in a REPL or notebook."""
    file = names.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()
