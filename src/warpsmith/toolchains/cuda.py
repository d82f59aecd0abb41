"""CUDA C++ to PTX and machine code through NVRTC, without nvcc, driver or GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CompileError, Diagnostic, ToolchainError, UsageError
from ..spec import Artifact, Resources, Target
from . import cache, nvrtc, ptxas, signature
from .diagnostics import ROOT, at_own_include, errors, own_name, read_log, tidy
from .host_code import without_host_code
from .includes import user_headers

# nvcc's names for what happens here anyway
_IMPLIED = {
    "-O2", "-O3", "-lineinfo", "--generate-line-info", "--expt-relaxed-constexpr",
    "-default-device", "--device-as-default-execution-space",
}  # fmt: skip

_memory: OrderedDict[str, tuple[Artifact, ...]] = OrderedDict()


class Cuda:
    """The toolchain role for CUDA C++: a source text or path and a target, to one artifact.

    options: kernel, name, folder, defines, headers and options, as `compile_source` takes them.
    """

    language = "cuda"

    def build(self, source: Any, target: Target, *, options: Mapping[str, Any]) -> Artifact:
        options = dict(options)
        kernel = options.pop("kernel", None)
        if isinstance(source, Path) or "\n" not in str(source):
            path = Path(source)
            options = {"name": path.name, "folder": path.parent} | options
            source = read_source(path)
        found = compile_source(str(source), target, kernel=kernel, **options)
        return select(found, kernel, str(options.get("name", "the source")))


def read_source(path: Path) -> str:
    """The text of a CUDA file. Raises UsageError, naming the files that are there instead."""
    if path.is_file():
        return path.read_text()
    near = sorted(p.name for p in path.parent.glob("*.cu")) if path.parent.is_dir() else []
    there = f"there are: {', '.join(near)}" if near else f"no .cu file is in {path.parent}"
    raise UsageError(
        f"no CUDA file at {path}: {there}. Pass a path relative to your Python file, "
        "or the source itself as a string of several lines."
    )


def compile_source(
    text: str,
    target: Target,
    *,
    name: str = "kernel.cu",
    kernel: str | None = None,
    folder: str | Path | None = None,
    options: Sequence[str] = (),
    defines: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    first_line: int = 1,
) -> tuple[Artifact, ...]:
    """Every kernel of a CUDA source, compiled for `target.arch`; they share one PTX text.

    Host functions are left out (see `host_code`), whatever else the text has must be device code.

    name: what messages and line tables call the file. kernel: where it names an instantiation,
    "softmax<float, 4>", that one is compiled too. folder: where the source lies; its headers are
    found there. options: NVRTC's, and nvcc's -I and -D. defines: macros; True defines a bare one.
    headers: further headers in memory, by the name in the #include directive. first_line: the line
    of the file called `name` that the text begins at, for sources inside a Python file.

    Raises CompileError with the user's own file and line, MissingTool, or UsageError.
    """
    folder = Path(folder) if folder is not None else None
    if first_line != 1:
        text = f'#line {first_line} "{name}"\n{text}'
    search, flags = _flags(options, folder)
    flags += [f"-D{n}" if v is True else f"-D{n}={v}" for n, v in (defines or {}).items()]
    own = user_headers(text, folder, search, headers)
    device = without_host_code(text)
    own = {n: without_host_code(t) for n, t in own.items()}
    expressions = [kernel] if kernel and "<" in kernel else []
    name_of_entry = cache.key(
        "cuda", _versions(), target.arch, name, text, *_flat(own), "\n".join(flags),
        "\n".join(expressions),
    )  # fmt: skip

    def compiled() -> tuple[Artifact, ...]:
        _check_arch(target)
        make = functools.partial(
            _compile, device, text, name, target.arch, flags, own, search, expressions
        )
        return cache.artifacts(name_of_entry, make)

    return cache.remembered(_memory, name_of_entry, compiled)


def line_of(text: str, file_text: str) -> int | None:
    """The line, from 1, where a file holds this text; None where it does not, word for word."""
    at = file_text.find(text)
    return file_text.count("\n", 0, at) + 1 if at >= 0 and text.strip() else None


def select(artifacts: Sequence[Artifact], kernel: str | None, source: str) -> Artifact:
    """The kernel of that name, or the only one. Raises UsageError that lists the names."""
    names = [signature.readable(a.kernel) for a in artifacts]
    if kernel is None:
        if len(artifacts) == 1:
            return artifacts[0]
        raise UsageError(_choose(source, artifacts, names))
    wanted = _squeeze(kernel)
    for match in (_exactly, _without_scope, _without_arguments):
        found = [a for a, n in zip(artifacts, names) if match(a.kernel, n) == wanted]
        if len(found) == 1:
            return found[0]
    raise UsageError(f"{source} has no kernel {kernel!r}. {_choose(source, artifacts, names)}")


def _compile(
    text: str,
    shown: str,
    name: str,
    arch: str,
    flags: Sequence[str],
    headers: Mapping[str, str],
    search: Sequence[str],
    expressions: Sequence[str],
) -> tuple[Artifact, ...]:
    declared = signature.kernels("\n".join([text, *headers.values()]))
    full = [f"--gpu-architecture={arch}", *_always(flags), *flags, *_folders(search, text)]

    def run(options: Sequence[str], wanted: Sequence[str]) -> nvrtc.Compiled:
        return nvrtc.compile_program(
            text, ROOT + name, options=options, headers=headers, expressions=wanted
        )

    done = run([*full, "--ptxas-options=-v"], expressions)
    if not done.ok:
        error = _failure(done.log, run, full, arch, expressions)
        found = at_own_include(list(error.diagnostics), text, name)
        raise CompileError(error.language, found, error.log)
    hidden = [d.name for d in declared if not d.template and d.name not in _names(done.ptx)]
    if hidden and not expressions:  # `static` and nameless namespaces: kept only when asked for
        again = run([*full, "--ptxas-options=-v"], hidden)
        done = again if again.ok else done
    ptx = _own_file_names(done.ptx)
    resources = ptxas.read_report(done.log)
    lowered = set(done.lowered.values())
    return tuple(
        Artifact(
            language="cuda",
            kernel=entry.name,
            arch=arch,
            ptx=ptx,
            parameters=signature.parameters(entry, _declaration(entry, declared), text),
            resources=resources.get(entry.name, Resources()),
            cubin=done.cubin or None,
            source_name=name,
            source=shown,
            cluster=entry.clusters,
        )
        for entry in signature.entries(ptx).values()
        if not expressions or entry.name in lowered or not lowered
    )


def _failure(
    log: str, run: Any, full: Sequence[str], arch: str, wanted: Sequence[str]
) -> CompileError:
    ptx = ""
    if re.search(r"^ptxas ", log, re.MULTILINE):  # inline assembly: ask for the PTX it stands in
        virtual = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *full[1:]]
        ptx = _own_file_names(run(virtual, wanted).ptx)
    found = errors(read_log(log, ptx)) or [Diagnostic("error", tidy(log).strip()[:500])]
    return CompileError("CUDA", found, tidy(log))


def _flags(options: Sequence[str], folder: Path | None) -> tuple[list[str], list[str]]:
    """The user's include folders, and his other flags."""
    if isinstance(options, str):
        raise UsageError(
            f"options is the string {options!r}; expected a list: options=[{options!r}]"
        )
    search, flags = [], []
    for option in options:
        if option.startswith(("-arch", "--gpu-architecture", "-gencode", "--gpu-code")):
            raise UsageError(
                f"option {option!r}: the architecture comes from the target. Pass target="
            )
        if option.startswith(("-I", "--include-path=")):
            given = option.removeprefix("--include-path=").removeprefix("-I").strip()
            search.append(str((folder or Path()) / given))
        elif option not in _IMPLIED:
            flags.append(option)
    return search, flags


def _always(flags: Sequence[str]) -> list[str]:
    always = [
        "-lineinfo",
        "--device-as-default-execution-space",
        "--pre-include=warpsmith/nvcc.h",
        "--diag-suppress=47",  # cccl and users redefine macros of the header above
    ]
    if not any(f.startswith(("-std", "--std")) for f in flags):
        always.append("--std=c++17")
    return always


def _folders(search: Sequence[str], text: str) -> list[str]:
    extra = [_curand()] if "curand" in text else []
    return [f"-I{f}" for f in (*search, *nvrtc.include_folders(), *extra) if f]


@functools.cache
def _curand() -> str:
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        return find_nvidia_header_directory("curand") or ""
    except Exception:  # not installed shows itself in many ways; NVRTC then names the header
        return ""


def _check_arch(target: Target) -> None:
    major, minor = target.compute_capability
    known = nvrtc.supported()
    if major * 10 + minor not in known:
        raise ToolchainError(
            f"NVRTC {'.'.join(map(str, nvrtc.version()))} does not compile for {target.arch} "
            f"({target.title}); it knows {', '.join(f'sm_{n}' for n in known)}. "
            "Choose another target, or install the NVRTC wheel of an older CUDA."
        )


def _declaration(
    entry: signature.Entry, declared: Sequence[signature.Declared]
) -> signature.Declared | None:
    name = _without_arguments(entry.name, signature.readable(entry.name))
    alike = [d for d in declared if d.name == name]
    return next((d for d in alike if len(d.parameters) == len(entry.sizes)), None)


def _names(ptx: str) -> set[str]:
    return {_without_arguments(n, signature.readable(n)) for n in signature.entries(ptx)}


def _choose(source: str, artifacts: Sequence[Artifact], names: Sequence[str]) -> str:
    declared = signature.kernels(artifacts[0].source) if artifacts else []
    templates = [f"{d.name}<…>" for d in declared if d.template]
    known = [*names, *(t for t in templates if not any(n.startswith(t[:-2]) for n in names))]
    if not known:
        return f"{source} defines no __global__ function"
    return f"{source} defines {', '.join(known)}: say which, for example kernel={known[0]!r}"


def _exactly(entry: str, name: str) -> str:
    return _squeeze(name)


def _without_scope(entry: str, name: str) -> str:
    head, bracket, rest = name.partition("<")
    return _squeeze(head.rsplit("::", 1)[-1] + bracket + rest)


def _without_arguments(entry: str, name: str) -> str:
    return name.partition("<")[0].rsplit("::", 1)[-1]


def _squeeze(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _own_file_names(ptx: str) -> str:
    """PTX whose .file lines hold no folder of this machine."""
    return re.sub(
        r'^(\s*\.file\s+\d+\s+)"([^"]+)"', lambda m: f'{m[1]}"{own_name(m[2])}"', ptx, flags=re.M
    )


def _flat(headers: Mapping[str, str]) -> list[str]:
    return [part for name in sorted(headers) for part in (name, headers[name])]


@functools.cache
def _versions() -> str:
    """What the output depends on beside the source: NVRTC, CUDA's headers and our own."""
    found = [".".join(map(str, nvrtc.version()))]
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
        try:
            found.append(importlib.metadata.version(wheel))
        except importlib.metadata.PackageNotFoundError:
            found.append("none")
    own = sorted(p for p in nvrtc.INCLUDE.rglob("*") if p.is_file())
    return cache.key(*found, *(part for p in own for part in (p.name, p.read_bytes())))
