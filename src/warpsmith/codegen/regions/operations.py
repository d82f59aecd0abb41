"""What each ATen operation becomes: pointwise values, reductions, products, or only a new view."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .capture import Captured
from .expressions import COMPARISONS, LOGICAL, compute_dtype, is_float
from .ir import Axis, Buffer, Conflict, Ref, Size, Text, TorchCall, flat, leaves, product, regroup
from .lower import Lowering, Unmatched, dtype_of, shape_of, size_of

Handler = Callable[[Lowering, Any, tuple[Any, ...], dict[str, Any]], Any]

# ATen operations whose operands and result mean the same as ours
SAME = {
    "mul.Tensor": "mul",
    "mul.Scalar": "mul",
    "div.Tensor": "div",
    "div.Scalar": "div",
    "neg.default": "neg",
    "abs.default": "abs",
    "exp.default": "exp",
    "exp2.default": "exp2",
    "expm1.default": "expm1",
    "log.default": "log",
    "log2.default": "log2",
    "log10.default": "log10",
    "log1p.default": "log1p",
    "sqrt.default": "sqrt",
    "rsqrt.default": "rsqrt",
    "sin.default": "sin",
    "cos.default": "cos",
    "tan.default": "tan",
    "asin.default": "asin",
    "acos.default": "acos",
    "atan.default": "atan",
    "sinh.default": "sinh",
    "cosh.default": "cosh",
    "tanh.default": "tanh",
    "asinh.default": "asinh",
    "acosh.default": "acosh",
    "atanh.default": "atanh",
    "erf.default": "erf",
    "erfc.default": "erfc",
    "floor.default": "floor",
    "ceil.default": "ceil",
    "trunc.default": "trunc",
    "round.default": "round",
    "reciprocal.default": "reciprocal",
    "sigmoid.default": "sigmoid",
    "relu.default": "relu",
    "sign.default": "sign",
    "atan2.default": "atan2",
    "pow.Tensor_Tensor": "pow",
    "pow.Scalar": "pow",
    "fmod.Tensor": "fmod",
    "fmod.Scalar": "fmod",
    "copysign.Tensor": "copysign",
    "copysign.Scalar": "copysign",
    "maximum.default": "maximum",
    "minimum.default": "minimum",
    "where.self": "where",
    "isnan.default": "isnan",
    "isinf.default": "isinf",
    "signbit.default": "signbit",
    "bitwise_and.Tensor": "bitwise_and",
    "bitwise_and.Scalar": "bitwise_and",
    "bitwise_or.Tensor": "bitwise_or",
    "bitwise_or.Scalar": "bitwise_or",
    "bitwise_xor.Tensor": "bitwise_xor",
    "bitwise_xor.Scalar": "bitwise_xor",
    "logical_and.default": "logical_and",
    "logical_or.default": "logical_or",
    "logical_xor.default": "logical_xor",
    "logical_not.default": "logical_not",
} | {
    f"{name}.{kind}": name for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")
}  # fmt: skip

RANDOM = (
    "dropout",
    "bernoulli",
    "rand",
    "randn",
    "randint",
    "normal",
    "uniform",
    "exponential",
    "multinomial",
    "randperm",
)
HANDLERS: dict[str, Handler] = {}


def implements(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler in the table under ATen names without their 'aten.' prefix."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


def lower(captured: Captured) -> tuple[Lowering, list[Buffer | float]]:
    """Walk the graph; give the lowering and one buffer (or number) for each output."""
    state = Lowering(captured)
    needed = _needed(captured)
    for node in captured.graph.nodes:
        if node.op == "placeholder":
            state.known[node] = _placeholder(state, node)
        elif node.op == "call_function" and node in needed:
            state.known[node] = _call(state, node)
        elif node.op not in ("output", "call_function"):
            raise Unmatched(node, "a constant tensor or a call of a submodule")
    return state, [_output(state, node) for node in captured.outputs]


def _needed(captured: Captured) -> set[Any]:
    """Nodes that an output depends on: the rest (running statistics) is not computed."""
    todo, seen = [n for n in captured.outputs if hasattr(n, "op")], set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.all_input_nodes)
    return seen


def _placeholder(state: Lowering, node: Any) -> Any:
    value = node.meta.get("val")
    if not hasattr(value, "shape"):
        return value if value is None else size_of(value)
    if node.name in state.captured.constants:
        return state.constant(state.captured.constants[node.name], dtype_of(node))
    if node.name not in state.captured.sources:
        raise Unmatched(node, "a constant tensor")
    source = state.captured.sources[node.name]
    scalar = node.name in state.captured.scalars
    name = (
        node.name
        if source.startswith("inputs")
        else node.name.removeprefix("p_").removeprefix("b_")
    )
    buffer = Buffer(state.name(name), shape_of(node), dtype_of(node), source=source, scalar=scalar)
    return state.load(buffer)


def _call(state: Lowering, node: Any) -> Any:
    if node.target is operator.getitem:
        return state.known[node.args[0]][node.args[1]]
    name = str(node.target).removeprefix("aten.")
    meta = node.meta.get("val")
    if not hasattr(meta, "shape") and not isinstance(meta, (tuple, list)):
        return size_of(meta) if meta is not None else None
    arguments = tuple(_argument(state, a) for a in node.args)
    keywords = {k: _argument(state, v) for k, v in node.kwargs.items()}
    try:
        if name in SAME:
            return _pointwise(state, SAME[name], list(arguments), node)
        if name in HANDLERS:
            return HANDLERS[name](state, node, arguments, keywords)
        raise Unmatched(node)
    except (Unmatched, Conflict) as failure:
        return leave_to_torch(state, node, getattr(failure, "why", ""))


def _argument(state: Lowering, value: Any) -> Any:
    """Nodes become Refs or sizes."""
    if isinstance(value, (list, tuple)):
        return [_argument(state, v) for v in value]
    if not hasattr(value, "op"):
        return value
    return state.known[value]


def _output(state: Lowering, node: Any) -> Any:
    if not hasattr(node, "op"):
        return node
    ref = _argument(state, node)
    if isinstance(ref, Ref):
        return state.output(ref)
    raise Unmatched(node, "an output that is not a tensor")


# pointwise


def _ref(state: Lowering, value: Any, dtype: str) -> Ref:
    if isinstance(value, Ref):
        return value
    if isinstance(value, (bool, int, float)):
        return state.constant(value, dtype)
    kind = "int64" if value.is_integer else "float64"
    return Ref(state.make("size", dtype=kind, detail=value), ())  # a symbolic size, or made of some


def _pointwise(state: Lowering, op: str, operands: list[Any], node: Any, dtype: str = "") -> Ref:
    """One of `expressions.OPS` over tensors and numbers; dtype is the node's unless given."""
    dtype = dtype or dtype_of(node)
    compute = compute_dtype(dtype)
    if op in COMPARISONS or op in ("logical_not", *LOGICAL):
        compute = _promoted(operands)
    if op in ("mul", "div") and operands[1] in (1, 1.0) and operands[0].value.dtype == dtype:
        return operands[0]
    refs = [_ref(state, value, compute) for value in operands]
    return state.pointwise(op, refs, dtype, compute, node)


def _promoted(operands: list[Any]) -> str:
    """The dtype in which operands of a comparison meet: torch's rules, then the compute dtype."""
    import torch

    def example(value: Any) -> Any:
        if not isinstance(value, Ref):
            return value if isinstance(value, (bool, int, float)) else 2
        rank = 1 if value.dims else 0
        return torch.empty([1] * rank, dtype=getattr(torch, value.value.dtype), device="meta")

    given = [example(v) for v in operands]
    dtype = given[0].dtype if len(given) == 1 else torch.result_type(*given)
    return compute_dtype(str(dtype).removeprefix("torch."))


@implements("add.Tensor", "add.Scalar")
def _add(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _scaled(state, node, "add", a, k)


@implements("sub.Tensor", "sub.Scalar")
def _sub(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _scaled(state, node, "sub", a, k)


@implements("rsub.Scalar", "rsub.Tensor")
def _rsub(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    alpha = k.get("alpha", a[2] if len(a) > 2 else 1)
    taken = a[0] if alpha == 1 else _pointwise(state, "mul", [a[0], alpha], node)
    return _pointwise(state, "sub", [a[1], taken], node)


def _scaled(state: Lowering, node: Any, op: str, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    """a + alpha * b, or a - alpha * b."""
    alpha = k.get("alpha", a[2] if len(a) > 2 else 1)
    other = a[1] if alpha == 1 else _pointwise(state, "mul", [a[1], alpha], node)
    return _pointwise(state, op, [a[0], other], node)


@implements("pow.Tensor_Scalar")
def _pow(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    base, exponent = a
    named = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "cast"}
    if is_float(dtype_of(node)) and exponent in named:
        return _pointwise(state, named[exponent], [base], node)
    if exponent == 2:
        return _pointwise(state, "mul", [base, base], node)
    if exponent == 3:
        return _pointwise(state, "mul", [_pointwise(state, "mul", [base, base], node), base], node)
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "an integer power")
    return _pointwise(state, "pow", [base, exponent], node)


@implements("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    mode = k.get("rounding_mode", a[2] if len(a) > 2 else None)
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "integer division")
    exact = _pointwise(state, "div", list(a[:2]), node)
    return exact if mode is None else _pointwise(state, mode, [exact], node)


@implements("gelu.default")
def _gelu(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _pointwise(
        state, "gelu_tanh" if k.get("approximate") == "tanh" else "gelu", [a[0]], node
    )


@implements("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default")
def _clamp(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    low, high = (*a[1:], None, None)[:2]
    low, high = k.get("min", low), k.get("max", high)
    if "clamp_max" in str(node.target):
        low, high = None, a[1]
    result = a[0]
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            result = _pointwise(state, op, [result, bound], node)
    return result


@implements("bitwise_not.default")
def _not(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _pointwise(
        state, "logical_not" if dtype_of(node) == "bool" else "bitwise_not", [a[0]], node
    )


@implements(
    "_to_copy.default",
    "to.dtype",
    "convert_element_type.default",
    "prims.convert_element_type.default",
)
def _cast(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    if a[0].value.dtype == dtype_of(node):
        return a[0]
    return _pointwise(state, "cast", [a[0]], node)


@implements(
    "clone.default",
    "alias.default",
    "detach.default",
    "contiguous.default",
    "lift_fresh_copy.default",
)
def _same(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return a[0]


@implements(
    "full.default",
    "full_like.default",
    "scalar_tensor.default",
    "zeros_like.default",
    "ones_like.default",
    "zeros.default",
    "ones.default",
)
def _full(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    name = str(node.target)
    number = 0 if "zeros" in name else 1 if "ones" in name else a[0] if "scalar" in name else a[1]
    value = _ref(state, number, dtype_of(node)).value
    return Ref(value, tuple(() if s == 1 else (Axis(s),) for s in shape_of(node)))


@implements("arange.start_step", "prims.iota.default")
def _arange(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    start, step = (
        (a[0], a[2] if len(a) > 2 else 1)
        if "arange" in str(node.target)
        else (k["start"], k["step"])
    )
    axis = Axis(shape_of(node)[0])
    counted: Any = Ref(state.make("iota", dtype="int64", detail=(axis,), over=(axis,)), ((axis,),))
    if step != 1:
        counted = _pointwise(state, "mul", [counted, step], node)
    return counted if start == 0 else _pointwise(state, "add", [counted, start], node)


# views


@implements("view.default", "reshape.default", "_unsafe_view.default")
def _view(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    try:
        return Ref(a[0].value, regroup(a[0].dims, shape_of(node)))
    except Conflict:
        buffer = state.output(a[0]) if a[0].value.op != "load" else state.store(a[0])
        return state.load(reshaped(state, buffer, shape_of(node)))


def reshaped(state: Lowering, buffer: Buffer, shape: tuple[Size, ...]) -> Buffer:
    """The buffer seen by torch in another shape; itself where that is its own."""
    if buffer.shape == shape:
        return buffer
    text = f"{buffer.name}.reshape({tuple_text(state, shape)})"
    return Buffer(state.name(f"{buffer.name}_view"), shape, buffer.dtype, base=buffer, view=text)


@implements("permute.default")
def _permute(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return Ref(a[0].value, tuple(a[0].dims[d] for d in a[1]))


@implements("t.default")
def _t(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return Ref(a[0].value, tuple(reversed(a[0].dims)))


@implements("transpose.int")
def _transpose(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = list(a[0].dims)
    dims[a[1]], dims[a[2]] = dims[a[2]], dims[a[1]]
    return Ref(a[0].value, tuple(dims))


@implements("unsqueeze.default")
def _unsqueeze(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    place = a[1] % (len(a[0].dims) + 1)
    return Ref(a[0].value, (*a[0].dims[:place], (), *a[0].dims[place:]))


@implements("squeeze.dims", "squeeze.dim", "squeeze.default")
def _squeeze(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    rank = len(a[0].dims)
    chosen = (
        range(rank)
        if len(a) < 2
        else [d % rank for d in (a[1] if isinstance(a[1], list) else [a[1]])]
    )
    return Ref(
        a[0].value, tuple(g for d, g in enumerate(a[0].dims) if d not in chosen or leaves(g))
    )


@implements("expand.default")
def _expand(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    shape = shape_of(node)
    old = ((),) * (len(shape) - len(a[0].dims)) + a[0].dims
    dims = tuple(g if leaves(g) or s == 1 else (Axis(s),) for g, s in zip(old, shape))
    return Ref(a[0].value, dims)


@implements("select.int")
def _select(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return state.host_view(a[0], f".select({a[1]}, {host_size(state, a[2])})", shape_of(node))


@implements("slice.Tensor")
def _slice(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    given = dict(zip(("dim", "start", "end", "step"), a[1:]))
    dim, start, step = given.get("dim", 0), given.get("start"), given.get("step", 1)
    end = given.get("end")
    if a[0].shape == shape_of(node):
        return a[0]
    rank = len(a[0].dims)
    end = "" if end is None or (isinstance(end, int) and end >= 2**62) else host_size(state, end)
    span = f"{host_size(state, start or 0)}:{end}" + (f":{step}" if step != 1 else "")
    index = ", ".join([":"] * (dim % rank) + [span])
    return state.host_view(a[0], f"[{index}]", shape_of(node))


@implements("split_with_sizes.default")
def _split(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, ...]:
    dim, parts, start = (a[2] if len(a) > 2 else 0), [], 0
    for size, meta in zip(a[1], node.meta["val"]):
        shape = tuple(size_of(s) for s in meta.shape)
        call = f".narrow({dim}, {host_size(state, start)}, {host_size(state, size)})"
        parts.append(state.host_view(a[0], call, shape))
        start = start + size
    return tuple(parts)


# reductions


def _dims(a: tuple[Any, ...], place: int, rank: int) -> list[int]:
    given = a[place] if len(a) > place else None
    if given is None or given == []:
        return list(range(rank))
    return [d % max(rank, 1) for d in (given if isinstance(given, list) else [given])]


def _reduce(
    state: Lowering, node: Any, kind: str, ref: Ref, dims: list[int], keep: bool, dtype: str = ""
) -> Ref:
    dtype = dtype or dtype_of(node)
    by_value = kind in ("max", "min", "argmax", "argmin", "welford")
    compute = (
        "bool" if kind in ("any", "all") else compute_dtype(ref.value.dtype if by_value else dtype)
    )
    return state.reduce(kind, ref, dims, keep, dtype, compute, node)


@implements(
    "sum.dim_IntList",
    "sum.default",
    "prod.dim_int",
    "prod.default",
    "amax.default",
    "amin.default",
    "any.dim",
    "any.dims",
    "any.default",
    "all.dim",
    "all.default",
    "argmax.default",
    "argmin.default",
    "max.default",
    "min.default",
)
def _plain(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    kind = (
        str(node.target)
        .removeprefix("aten.")
        .split(".")[0]
        .replace("amax", "max")
        .replace("amin", "min")
    )
    dims = _dims(a, 1, len(a[0].dims))
    keep = len(a) > 2 and bool(a[2])
    if not _reduces(a[0], dims) and kind in ("sum", "prod", "max", "min"):
        cast = (
            a[0] if a[0].value.dtype == dtype_of(node) else _pointwise(state, "cast", [a[0]], node)
        )
        return _without(cast, dims, keep)
    return _reduce(state, node, kind, a[0], dims, keep)


def _reduces(ref: Ref, dims: list[int]) -> bool:
    return any(leaves(ref.dims[d]) for d in dims)


def _without(ref: Ref, dims: list[int], keep: bool) -> Ref:
    """A reduction over dimensions of size 1: the same values in a shorter shape."""
    return Ref(ref.value, tuple(g for d, g in enumerate(ref.dims) if keep or d not in dims))


def _count(ref: Ref, dims: list[int]) -> Size:
    return product(ref.shape[d] for d in dims)


@implements("mean.dim", "mean.default")
def _mean(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = _dims(a, 1, len(a[0].dims))
    if not _reduces(a[0], dims):
        return _without(a[0], dims, len(a) > 2 and bool(a[2]))
    total = _plain_sum(state, node, a[0], dims, len(a) > 2 and bool(a[2]))
    return _pointwise(state, "div", [total, _count(a[0], dims)], node)


def _plain_sum(
    state: Lowering, node: Any, ref: Ref, dims: list[int], keep: bool, kind: str = "sum"
) -> Ref:
    return _reduce(state, node, kind, ref, dims, keep, compute_dtype(dtype_of(node)))


@implements("max.dim", "min.dim")
def _max_dim(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, Ref]:
    kind = "max" if "max" in str(node.target) else "min"
    keep = len(a) > 2 and bool(a[2])
    if not _reduces(a[0], [a[1] % max(len(a[0].dims), 1)]):
        zeros = Ref(state.make("const", dtype="int64", detail=0), a[0].dims)
        return _without(a[0], [a[1] % len(a[0].dims)], keep), _without(
            zeros, [a[1] % len(a[0].dims)], keep
        )
    best = _reduce(state, node, kind, a[0], [a[1]], keep, a[0].value.dtype)
    place = _reduce(state, node, f"arg{kind}", a[0], [a[1]], keep, "int64")
    return best, place


def _welford(
    state: Lowering, node: Any, ref: Ref, dims: list[int], keep: bool, correction: float, dtype: str
) -> tuple[Ref, Ref]:
    """(variance, mean), by one pass that keeps mean and sum of squared deviations."""
    compute = compute_dtype(dtype)
    if compute == "float64":
        raise Unmatched(node, "float64 variance")
    held = _reduce(state, node, "welford", ref, dims, keep, compute)
    mean = state.pointwise("welford_mean", [held], dtype, compute, node)
    m2 = state.pointwise("welford_m2", [held], compute, compute, node)
    count: Any = _ref(state, _count(ref, dims), compute)
    if correction:
        # torch divides by max(0, n - correction)
        count = state.pointwise(
            "sub", [count, state.constant(correction, compute)], compute, compute, node
        )
        count = state.pointwise(
            "maximum", [count, state.constant(0, compute)], compute, compute, node
        )
    return state.pointwise("div", [m2, count], dtype, compute, node), mean


def _correction(a: tuple[Any, ...], k: dict[str, Any]) -> float:
    given = k.get("correction", a[2] if len(a) > 2 and not isinstance(a[2], bool) else None)
    return 1.0 if given is None else float(given)


@implements("var.correction")
def _var(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = _dims(a, 1, len(a[0].dims))
    return _welford(
        state, node, a[0], dims, bool(k.get("keepdim", False)), _correction(a, k), dtype_of(node)
    )[0]


@implements("var_mean.correction")
def _var_mean(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, Ref]:
    dims = _dims(a, 1, len(a[0].dims))
    dtype = str(node.meta["val"][0].dtype).removeprefix("torch.")
    return _welford(
        state, node, a[0], dims, bool(k.get("keepdim", False)), _correction(a, k), dtype
    )


@implements("linalg_vector_norm.default")
def _norm(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    order = a[1] if len(a) > 1 else 2
    dims = _dims(a, 2, len(a[0].dims))
    keep = len(a) > 3 and bool(a[3])
    compute = compute_dtype(dtype_of(node))
    size = state.pointwise("abs", [a[0]], compute, compute, node)
    if math.isinf(order):
        return _plain_sum(state, node, size, dims, keep, "max" if order > 0 else "min")
    if order == 1:
        return _plain_sum(state, node, size, dims, keep)
    if order == 2:
        squares = state.pointwise("square", [a[0]], compute, compute, node)
        return _pointwise(state, "sqrt", [_plain_sum(state, node, squares, dims, keep)], node)
    if order == 0:
        raise Unmatched(node, "a norm of order 0")
    power = state.constant(order, compute)
    total = _plain_sum(
        state, node, state.pointwise("pow", [size, power], compute, compute, node), dims, keep
    )
    return _pointwise(state, "pow", [total, 1.0 / order], node)


@implements("gather.default")
def _gather(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    """One element per row, as the sum over the row of what stands at the wanted place."""
    source, dim, index = a
    rank = len(source.dims)
    dim = dim % rank
    if leaves(index.dims[dim]) or not leaves(source.dims[dim]):
        raise Unmatched(node, "only one element per row can be gathered")
    group = leaves(source.dims[dim])
    counter = Ref(
        state.make("iota", dtype="int64", detail=group, over=group),
        tuple(group if d == dim else () for d in range(rank)),
    )
    here = state.pointwise("eq", [counter, index], "bool", "int64", node)
    compute = compute_dtype(source.value.dtype)
    chosen = state.pointwise(
        "where", [here, source, state.constant(0, compute)], compute, compute, node
    )
    return _plain_sum(state, node, chosen, [dim], True)


# matrix products


@implements("mm.default", "bmm.default")
def _mm(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "a product of integers")
    return state.contract(a[0], a[1], node, dtype_of(node))


# what is left to torch


def leave_to_torch(state: Lowering, node: Any, why: str) -> Any:
    """Call the operation as it is, on stored operands. Random operations are refused."""
    name = str(node.target).removeprefix("aten.")
    if any(word in name for word in RANDOM):
        raise Unmatched(node, "it draws random numbers, which a kernel cannot repeat")
    metas = node.meta["val"]
    many = isinstance(metas, (tuple, list))
    outputs = []
    for meta in metas if many else [metas]:
        shape = tuple(size_of(s) for s in meta.shape)
        dtype = str(meta.dtype).removeprefix("torch.")
        outputs.append(Buffer(state.name(node.name), shape, dtype))
    arguments = tuple(_stored(state, state_argument(state, x)) for x in node.args)
    keywords = {k: _stored(state, state_argument(state, v)) for k, v in node.kwargs.items()}
    call = TorchCall(str(node.target), arguments, keywords, outputs, node)
    for buffer in outputs:
        buffer.step = call
    state.calls.append(call)
    state.unmatched.append((node, why))
    refs = tuple(state.load(b) for b in outputs)
    return refs if many else refs[0]


def state_argument(state: Lowering, value: Any) -> Any:
    return _argument(state, value)


def _stored(state: Lowering, value: Any) -> Any:
    if isinstance(value, Ref):
        held = value.value.detail if value.value.op == "load" else None
        if held and flat(held[1]) == flat(value.dims) and not held[0].strided:
            return reshaped(state, held[0], value.shape)
        buffer = state.store(value)
        direct_load = value.value.op == "load"
        same = direct_load or [leaves(g) for g in buffer.dims] == [leaves(g) for g in value.dims]
        return buffer if same else state.output(value)
    if isinstance(value, list):
        return [_stored(state, v) for v in value]
    if getattr(value, "free_symbols", None) is not None:
        return Text(host_size(state, value))
    return value


def host_size(state: Lowering, size: Any) -> str:
    """Python text of a size: '4096', 'inputs[0].shape[1] * 8'.

    >>> host_size(None, 3)
    '3'
    """
    return str(size) if isinstance(size, int) else size_text(size, state.captured.sizes)


def tuple_text(state: Lowering, sizes: tuple[Size, ...]) -> str:
    """Python text of a shape: '(inputs[0].shape[0], 64)'."""
    inner = ", ".join(host_size(state, s) for s in sizes)
    return f"({inner},)" if len(sizes) == 1 else f"({inner})"


def size_text(size: Any, symbols: dict[str, str]) -> str:
    """Python text of a sympy expression over the given symbols."""
    from torch.utils._sympy.printers import PythonPrinter

    if isinstance(size, int):
        return str(size)
    import re

    text = PythonPrinter().doprint(size)
    return re.sub(r"\bs\d+\b", lambda m: symbols[m.group(0)], text)
