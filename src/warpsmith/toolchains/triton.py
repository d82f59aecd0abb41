"""Compile Triton functions for a named target with no GPU, from the arguments of a launch."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CompileError, Diagnostic, DtypeError, MissingTool, UsageError
from ..spec import Artifact, Parameter, Resources, Target
from . import cache, ptxas, signature
from .diagnostics import own_name

INSTALL = "pip install 'warpsmith[torch]'"
SCRATCH = ("global_scratch", "profile_scratch")  # hidden last parameters of every Triton kernel

# Triton's names of types: C's
_CTYPES = {
    "i1": "bool", "u1": "bool", "i8": "signed char", "u8": "unsigned char", "i16": "short",
    "u16": "unsigned short", "i32": "int", "u32": "unsigned int", "i64": "long long",
    "u64": "unsigned long long", "fp16": "half", "bf16": "__nv_bfloat16", "fp32": "float",
    "fp64": "double", "fp8e4nv": "__nv_fp8_e4m3", "fp8e5": "__nv_fp8_e5m2",
}  # fmt: skip

_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"]+)"', re.MULTILINE)
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
_memory: OrderedDict[Any, Program] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled Triton kernel and what its launch must add to the artifact.

    scratch_bytes: of global memory that every program of the grid needs, at this alignment.
    descriptors: of each host-side tensor descriptor, in order, how TMA is to see its tensor, or None
    where the kernel reads it by pointers.
    """

    artifact: Artifact
    scratch_bytes: int = 0
    scratch_alignment: int = 1
    cooperative: bool = False
    descriptors: tuple[Mapping[str, Any] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel, bound: the program, the values of its parameters, all named arguments."""

    program: Program
    values: tuple[Any, ...]
    named: Mapping[str, Any]


class Triton:
    """The toolchain role for Triton: a `@triton.jit` function and a target, to one artifact.

    options: `args` and `kwargs` of a launch, from which types and constants are taken.
    """

    language = "triton"

    def build(self, source: Any, target: Target, *, options: Mapping[str, Any]) -> Artifact:
        call = bind(source, target, options.get("args", ()), options.get("kwargs", {}))
        return call.program.artifact


def bind(fn: Any, target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Choose a configuration, specialise on the arguments as Triton does, and compile.

    fn: what `@triton.jit`, `@triton.heuristics` or `@triton.autotune` gives. An autotuned function
    takes the first configuration that pruning leaves and whose shared memory the target has, or the
    one given as `config=`: an index or a `triton.Config`. Hooks of the configuration run.

    Raises CompileError at the user's line, DtypeError for an argument that Triton cannot take,
    UsageError for arguments that do not fit the signature, or MissingTool.
    """
    refused: Call | None = None
    for chosen in _choices(fn, args, kwargs):
        call, hooks = _bind_one(fn, target, args, chosen)
        if call.program.artifact.shared_bytes <= target.shared_per_block_bytes:
            for hook in hooks:
                hook()
            return call
        refused = refused or call
    if refused is None:
        raise UsageError(f"{name_of(fn)}: pruning leaves no configuration to run")
    return refused  # the launch says what it has too much of


def _bind_one(
    fn: Any, target: Target, args: Sequence[Any], given: dict[str, Any]
) -> tuple[Call, list[Callable[[], Any]]]:
    jit, kwargs, hooks = settle(fn, args, given)
    kwargs.setdefault("enable_fp_fusion", True)  # Triton's own default changed between releases
    backend, binder = _binder(jit, target.compute_capability)
    named, special, options = _bound(jit, binder, args, kwargs)
    hooks += [functools.partial(hook, *args, **kwargs) for hook in jit.pre_run_hooks]
    key = (
        jit.cache_key, _place(jit), target.arch, _freeze(special), _freeze(sorted(options.items())),
    )  # fmt: skip
    program = cache.remembered(
        _memory, key, lambda: _compile(jit, target, backend, named, special, kwargs)
    )
    _check_globals(jit)
    return Call(program, tuple(_values(special, named)), named), hooks


def settle(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any], list[Callable[[], Any]]]:
    """The `@triton.jit` function under its decorators, the arguments that they add, and the hooks
    to run before a launch."""
    hooks: list[Callable[[], Any]] = []
    while not _is_jit(fn):
        if hasattr(fn, "configs"):
            kwargs, hook = _configured(fn, args, kwargs)
            hooks += [hook] if hook else []
        elif hasattr(fn, "values"):
            named = {**dict(zip(fn.arg_names, args)), **kwargs}
            for name, rule in fn.values.items():
                named[name] = kwargs[name] = rule(named)
        elif not hasattr(fn, "fn"):
            raise UsageError(_not_triton(fn))
        fn = fn.fn
    if "config" in kwargs and "config" not in fn.arg_names:
        raise UsageError(
            f"{name_of(fn)} is not autotuned: config={kwargs['config']!r} has no meaning"
        )
    return fn, kwargs, hooks


def base(fn: Any) -> Any:
    """The `@triton.jit` function under its decorators. Raises UsageError where there is none."""
    while not _is_jit(fn):
        if isinstance(fn, type) or not hasattr(fn, "fn"):
            raise UsageError(_not_triton(fn))
        fn = fn.fn
    return fn


def name_of(fn: Any) -> str:
    return str(getattr(base(fn), "__name__", fn))


def from_text(text: str, name: str | None = None, file: str = "kernel.py") -> Any:
    """Run the text of a Python module and give its Triton kernel, or the one called `name`.

    Raises UsageError that lists the kernels where there are several, or none.
    """
    from ..spec.load import execute

    names = execute(text, file)
    kernels = {k: v for k, v in names.items() if _is_kernel(v)}
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    known = ", ".join(kernels) or "none: it has no function under @triton.jit"
    raise UsageError(f"the text defines the Triton kernels {known}; name one, kernel=…")


def _is_jit(fn: Any) -> bool:
    return hasattr(fn, "cache_key") and hasattr(fn, "arg_names") and hasattr(fn, "params")


def _is_kernel(value: Any) -> bool:
    while hasattr(value, "fn") and not _is_jit(value):
        value = value.fn
    return _is_jit(value)


def _not_triton(fn: Any) -> str:
    if type(fn).__name__ == "InterpretedFunction":
        return (
            f"{fn!r} was made by Triton's interpreter. Unset TRITON_INTERPRET: CPU tensors run "
            "on the virtual GPU, compiled as for a GPU"
        )
    return f"{fn!r} is no Triton function: put @triton.jit above its def"


def _choices(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments with every configuration of an autotuned function in turn; else as they are."""
    tuner = fn
    while not hasattr(tuner, "configs") and hasattr(tuner, "fn") and not _is_jit(tuner):
        tuner = tuner.fn
    if not hasattr(tuner, "configs") or "config" in kwargs:
        yield dict(kwargs)
        return
    configs = list(tuner.configs)
    if getattr(tuner, "early_config_prune", None):
        named = dict(zip(tuner.arg_names, args))
        configs = tuner.early_config_prune(configs, named, **kwargs)
    for config in configs:
        yield {**kwargs, "config": config}


def _configured(
    tuner: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[], Any] | None]:
    """The arguments with those of the configuration in `config=`, and its hook."""
    kwargs = dict(kwargs)
    config, count = kwargs.pop("config"), len(tuner.configs)
    if isinstance(config, int):
        if not 0 <= config < count:
            raise UsageError(
                f"{name_of(tuner)}: config={config}, but it has {count} configurations, from 0"
            )
        config = tuner.configs[config]
    clash = kwargs.keys() & config.all_kwargs().keys()
    if clash:
        raise UsageError(
            f"{name_of(tuner)} is autotuned over {', '.join(sorted(clash))}: do not pass it as well"
        )
    kwargs |= config.all_kwargs()
    if config.pre_hook is None:
        return kwargs, None
    named = {**dict(zip(tuner.arg_names, args)), **kwargs}
    return kwargs, functools.partial(config.pre_hook, named)


@functools.cache
def _triton() -> Any:
    try:
        import triton
        import triton.compiler
        import triton.runtime.jit
        from triton.backends.compiler import GPUTarget  # noqa: F401
    except ImportError as error:
        raise MissingTool("Triton", str(error), INSTALL) from None
    return triton


@functools.cache
def _binder(jit: Any, capability: tuple[int, int]) -> tuple[Any, Callable[..., Any]]:
    """Triton's backend for a capability, and its function from arguments to specialisation."""
    triton = _triton()
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)
    backend = triton.compiler.make_backend(target)
    make = triton.runtime.jit.create_function_from_signature
    return backend, make(jit.signature, jit.params, backend)


def _bound(
    jit: Any, binder: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    for name, value in [*zip(jit.arg_names, args), *kwargs.items()]:
        if hasattr(value, "__array_interface__") and not hasattr(value, "data_ptr"):
            raise DtypeError(
                f"{name_of(jit)}: {name!r} is a {type(value).__name__}; Triton takes PyTorch "
                "tensors. Pass torch.from_numpy(...)"
            )
    try:
        named, special, given = binder(*args, **kwargs)
    except TypeError as error:
        text = str(error).replace("dynamic_func()", f"{name_of(jit)}()")
        kind = DtypeError if "specialize" in text or "Unsupported" in text else UsageError
        raise kind(f"{text}. Its parameters are {', '.join(jit.arg_names)}") from None
    return named, special, given


def _compile(
    jit: Any,
    target: Target,
    backend: Any,
    named: dict[str, Any],
    special: list[Any],
    kwargs: dict[str, Any],
) -> Program:
    triton = _triton()
    try:
        options, types, constants, attributes = jit._pack_args(
            backend, kwargs, named, special, kwargs
        )
    except KeyError as error:
        raise UsageError(
            f"{name_of(jit)}: {str(error.args[0]).strip()}. Its parameters are "
            f"{', '.join(jit.arg_names)}; Triton's options include {', '.join(_OPTIONS)}"
        ) from None
    source = triton.compiler.ASTSource(jit, types, constants, attributes)
    try:
        done = triton.compile(source, target=backend.target, options=options.__dict__)
    except Exception as error:  # MLIR and ptxas fail in many types
        raise failure(jit, error) from error
    return _program(jit, target, done, types)


def _program(jit: Any, target: Target, done: Any, types: Mapping[str, Any]) -> Program:
    meta = done.metadata
    ptx = portable(done.asm["ptx"], _place(jit)[0])
    entry = signature.entries(ptx)[meta.name]
    descriptors = _descriptors(types, meta)
    declared = list(_parameters(types, iter(descriptors)))
    hidden = [Parameter("pointer", name, "void") for name in SCRATCH]
    hidden = hidden[: max(len(entry.sizes) - len(declared), 0)]
    if len(declared) + len(hidden) != len(entry.sizes):
        raise CompileError(
            "Triton",
            [Diagnostic("error", _unexpected(types, declared, entry), *_place(jit))],
        )
    clusters = meta.num_ctas if meta.num_ctas > 1 else 1
    artifact = Artifact(
        language="triton",
        kernel=meta.name,
        arch=_arch_of(ptx, target),
        ptx=ptx,
        parameters=(*declared, *hidden),
        resources=_resources(ptx, meta.name, _arch_of(ptx, target)),
        cubin=done.asm.get("cubin"),
        source_name=_place(jit)[0],
        source=jit.src,
        threads=meta.num_warps * 32,
        shared_bytes=meta.shared,
        cluster=entry.clusters if entry.clusters != (1, 1, 1) else (clusters, 1, 1),
    )
    return Program(
        artifact,
        getattr(meta, "global_scratch_size", 0) or 0,
        getattr(meta, "global_scratch_align", 1) or 1,
        bool(getattr(meta, "launch_cooperative_grid", False)),
        descriptors,
    )


def _descriptors(types: Mapping[str, Any], meta: Any) -> tuple[Mapping[str, Any] | None, ...]:
    count = sum(isinstance(k, str) and k.startswith("tensordesc") for k in types.values())
    return tuple(getattr(meta, "tensordesc_meta", None) or (None,) * count)


def _parameters(
    types: Mapping[str, Any], descriptors: Iterator[Mapping[str, Any] | None]
) -> Iterator[Parameter]:
    for name, kind in types.items():
        for suffix, leaf in _leaves(kind):
            if leaf.startswith("tensordesc"):
                yield from _descriptor_parameters(name + suffix, leaf, next(descriptors))
            elif leaf != "constexpr":
                yield _parameter(name + suffix, leaf)


def _descriptor_parameters(
    name: str, kind: str, how: Mapping[str, Any] | None
) -> Iterator[Parameter]:
    """What Triton makes of a host-side descriptor: a tensor map, or a pointer, sizes and strides and
    one or (since 3.7) two flags; then sizes and strides once more."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    element, _, block = kind.removeprefix("tensordesc<").partition("[")
    rank = block.partition("]")[0].count(",") + 1
    if how is None:
        flags = 1 + hasattr(TensorDescriptor, "round_f32_to_tf32")
        yield _parameter(name, "*" + element)
        leaves = ["i64"] * 2 * rank + ["i1"] * flags
    else:
        yield Parameter("struct", name, "CUtensorMap", 128)
        leaves = []
    for i, leaf in enumerate([*leaves, *["i32"] * rank, *["i64"] * rank], 1):
        yield _parameter(f"{name}.{i}", leaf)


def _parameter(name: str, kind: str) -> Parameter:
    if kind.startswith("*"):
        element = kind[1:].removeprefix("k")
        return Parameter("pointer", name, _CTYPES.get(element, "void"), 8, kind[1:2] == "k")
    ctype = _CTYPES.get(kind, "")
    return Parameter("scalar", name, ctype, signature.SIZES.get(ctype, 8))


def _values(special: Sequence[Any], named: Mapping[str, Any]) -> Iterator[Any]:
    """The run-time values of a call, in the order of the PTX's parameters."""
    for (kind, _), value in zip(special, named.values()):
        yield from _flat_values(kind, value)


def _flat_values(kind: Any, value: Any) -> Iterator[Any]:
    if isinstance(kind, tuple):
        for k, v in zip(kind, value):
            yield from _flat_values(k, v)
    elif kind != "constexpr":
        yield value


def _leaves(kind: Any, suffix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(kind, tuple):
        for i, k in enumerate(kind):
            yield from _leaves(k, f"{suffix}[{i}]")
    else:
        yield suffix, kind


def portable(ptx: str, file: str) -> str:
    """PTX without the debug sections and folders that name this machine; line tables stay.

    file: the kernel's own. Triton's cache may hold the PTX of an equal kernel in another file.
    """
    section = r"^\s*\.section\s+\.debug_(?:abbrev|info|macinfo|loc)\s*\{[^}]*\}\s*$"
    ptx = re.sub(section, "", ptx, flags=re.MULTILINE)
    alone = len(_FILE.findall(ptx)) == 1
    return _FILE.sub(
        lambda m: f'{m[1]}"{file if alone else os.path.basename(own_name(m[2]))}"', ptx
    )


def _arch_of(ptx: str, target: Target) -> str:
    found = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    return found[1] if found else target.arch


def _resources(ptx: str, kernel: str, arch: str) -> Resources:
    return ptxas.report(ptx, arch).get(kernel, Resources(barriers=1))


def _unexpected(types: Mapping[str, Any], declared: Sequence[Any], entry: Any) -> str:
    return (
        f"the PTX takes {len(entry.sizes)} parameters where the signature {dict(types)} gives "
        f"{len(declared)} and up to {len(SCRATCH)} hidden ones"
    )


def failure(jit: Any, error: Exception) -> CompileError:
    """Triton's error at the line of the innermost Triton function that raised it."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    located: list[Any] = [
        e for e in chain if getattr(e, "node", None) is not None and hasattr(e, "src")
    ]
    if not located:
        text = f"{type(error).__name__}: {str(error).strip()[:2000]}"
        return CompileError("Triton", [Diagnostic("error", text, *_place(jit))], str(error))
    inner = located[-1]
    message = getattr(inner, "error_message", None) or _last_message(chain, inner)
    owner = next((f for f in _reachable(jit) if f.src == inner.src), jit)
    file, first = _place(owner)
    line = first + getattr(inner.node, "lineno", 1) - 1
    return CompileError("Triton", [Diagnostic("error", message, file, line)], str(error))


def _last_message(chain: Sequence[BaseException], inner: BaseException) -> str:
    below = chain[chain.index(inner) + 1 :]
    source = below[-1] if below else inner
    return f"{type(source).__name__}: {str(source).strip().splitlines()[-1][:500]}"


def _place(jit: Any) -> tuple[str, int]:
    """File name of a Triton function, and the line of its def."""
    lines = [i for i, text in enumerate(jit.raw_src) if text.lstrip().startswith("def ")]
    file = os.path.basename(jit.fn.__code__.co_filename)
    return file, jit.starting_line_number + (lines[0] if lines else 0)


def _reachable(jit: Any) -> list[Any]:
    """This Triton function and those that it can call by a global name, transitively."""
    found: list[Any] = []
    waiting = [jit]
    while waiting:
        fn = waiting.pop()
        if any(fn is f for f in found):
            continue
        found.append(fn)
        names = fn.get_capture_scope() if hasattr(fn, "get_capture_scope") else fn.__globals__
        waiting += [v for v in list(names.values()) if _is_jit(v) and hasattr(v, "src")]
    return found


def _check_globals(jit: Any) -> None:
    missing = object()
    for (name, _), (value, names) in jit.used_global_vals.items():
        now = names.get(name, missing)
        if now is not value and now != value:
            raise UsageError(
                f"{name_of(jit)}: global {name} was {value} when it was compiled and is {now} now. "
                "Pass it as a tl.constexpr argument"
            )


def _freeze(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(v) for v in value)
    if _is_jit(value):
        return value.cache_key
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value).__name__, value)  # 1, 1.0 and True are three constants


def version() -> str:
    return str(_triton().__version__)


def folder() -> Path:
    return Path(_triton().__file__).parent
