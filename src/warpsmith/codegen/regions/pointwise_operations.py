"""ATen operations that become pointwise values."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from .expressions import is_float
from .handling import as_ref, implements, pointwise
from .ir import Axis, Ref
from .lower import Lowering, Unmatched, dtype_of, shape_of

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


@implements("add.Tensor", "add.Scalar")
def _add(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _scaled(state, node, "add", a, k)


@implements("sub.Tensor", "sub.Scalar")
def _sub(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return _scaled(state, node, "sub", a, k)


@implements("rsub.Scalar", "rsub.Tensor")
def _rsub(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    alpha = k.get("alpha", a[2] if len(a) > 2 else 1)
    taken = a[0] if alpha == 1 else pointwise(state, "mul", [a[0], alpha], node)
    return pointwise(state, "sub", [a[1], taken], node)


def _scaled(state: Lowering, node: Any, op: str, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    """a + alpha * b, or a - alpha * b."""
    alpha = k.get("alpha", a[2] if len(a) > 2 else 1)
    other = a[1] if alpha == 1 else pointwise(state, "mul", [a[1], alpha], node)
    return pointwise(state, op, [a[0], other], node)


@implements("pow.Tensor_Scalar")
def _pow(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    base, exponent = a
    named = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "cast"}
    if is_float(dtype_of(node)) and exponent in named:
        return pointwise(state, named[exponent], [base], node)
    if exponent == 2:
        return pointwise(state, "mul", [base, base], node)
    if exponent == 3:
        return pointwise(state, "mul", [pointwise(state, "mul", [base, base], node), base], node)
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "an integer power")
    return pointwise(state, "pow", [base, exponent], node)


@implements("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    mode = k.get("rounding_mode", a[2] if len(a) > 2 else None)
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "integer division")
    exact = pointwise(state, "div", list(a[:2]), node)
    return exact if mode is None else pointwise(state, mode, [exact], node)


@implements("gelu.default")
def _gelu(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return pointwise(state, "gelu_tanh" if k.get("approximate") == "tanh" else "gelu", [a[0]], node)


@implements("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default")
def _clamp(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    low, high = (*a[1:], None, None)[:2]
    low, high = k.get("min", low), k.get("max", high)
    if "clamp_max" in str(node.target):
        low, high = None, a[1]
    result = a[0]
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            result = pointwise(state, op, [result, bound], node)
    return result


@implements("bitwise_not.default")
def _not(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return pointwise(
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
    return pointwise(state, "cast", [a[0]], node)


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
    value = as_ref(state, number, dtype_of(node)).value
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
        counted = pointwise(state, "mul", [counted, step], node)
    return counted if start == 0 else pointwise(state, "add", [counted, start], node)
