"""How each pointwise operation is written in CUDA C++ and in Triton: one table, one row each.

{0}, {1}, … are the operands, already of the compute type. {f} is 'f' for float and nothing for
double, so that "exp{f}" is expf or exp. {one}, {half}, … do not exist: literals are written with
`literal`. A reduction's row says how it starts, takes one element, and merges two partial results.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Op:
    """cuda, triton: the expression. integer: the CUDA form on integers, where it differs.

    helper: name of a function in templates/helpers that the CUDA form calls.
    """

    cuda: str
    triton: str
    integer: str = ""
    helper: str = ""


def _call(name: str, triton: str = "") -> Op:
    return Op(f"{name}{{f}}({{0}})", triton or f"libdevice.{name}({{0}})")


def _infix(sign: str) -> Op:
    return Op(f"{{0}} {sign} {{1}}", f"{{0}} {sign} {{1}}")


OPS: dict[str, Op] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": Op("{0} / {1}", "{0} / {1}"),
    "fma": Op("fma{f}({0}, {1}, {2})", "tl.fma({0}, {1}, {2})"),
    "neg": Op("-{0}", "-{0}"),
    "abs": Op("fabs{f}({0})", "tl.abs({0})", integer="({0} < 0 ? -{0} : {0})"),
    "exp": _call("exp", "tl.exp({0})"),
    "exp2": _call("exp2", "tl.exp2({0})"),
    "expm1": _call("expm1"),
    "log": _call("log", "tl.log({0})"),
    "log2": _call("log2", "tl.log2({0})"),
    "log10": _call("log10"),
    "log1p": _call("log1p"),
    "sqrt": _call("sqrt", "tl.sqrt_rn({0})"),
    "rsqrt": _call("rsqrt", "tl.rsqrt({0})"),
    "sin": _call("sin", "tl.sin({0})"),
    "cos": _call("cos", "tl.cos({0})"),
    "tan": _call("tan"),
    "asin": _call("asin"),
    "acos": _call("acos"),
    "atan": _call("atan"),
    "sinh": _call("sinh"),
    "cosh": _call("cosh"),
    "tanh": _call("tanh"),
    "asinh": _call("asinh"),
    "acosh": _call("acosh"),
    "atanh": _call("atanh"),
    "erf": _call("erf", "tl.erf({0})"),
    "erfc": _call("erfc"),
    "floor": _call("floor", "tl.floor({0})"),
    "ceil": _call("ceil", "tl.ceil({0})"),
    "trunc": _call("trunc"),
    "round": _call("rint"),
    "reciprocal": Op("1 / {0}", "1.0 / {0}"),
    "square": Op("{0} * {0}", "{0} * {0}"),
    "atan2": Op("atan2{f}({0}, {1})", "libdevice.atan2({0}, {1})"),
    "pow": Op("pow{f}({0}, {1})", "libdevice.pow({0}, {1})"),
    "fmod": Op("fmod{f}({0}, {1})", "libdevice.fmod({0}, {1})", integer="{0} % {1}"),
    "sigmoid": Op("1 / (1 + exp{f}(-{0}))", "1.0 / (1.0 + tl.exp(-{0}))"),
    "gelu": Op("gelu({0})", "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))", helper="gelu"),
    "gelu_tanh": Op(
        "gelu_tanh({0})",
        "0.5 * {0} * (1.0 + libdevice.tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
        helper="gelu_tanh",
    ),
    "relu": Op("{0} < 0 ? 0 : {0}", "tl.where({0} < 0, 0, {0})"),
    "sign": Op("({0} > 0) - ({0} < 0)", "tl.where({0} > 0, 1, tl.where({0} < 0, -1, 0))"),
    "maximum": Op(
        "nan_max({0}, {1})",
        "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
        integer="({0} > {1} ? {0} : {1})",
        helper="nan_max",
    ),
    "minimum": Op(
        "nan_min({0}, {1})",
        "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
        integer="({0} < {1} ? {0} : {1})",
        helper="nan_min",
    ),
    "where": Op("{0} ? {1} : {2}", "tl.where({0}, {1}, {2})"),
    "eq": _infix("=="),
    "ne": _infix("!="),
    "lt": _infix("<"),
    "le": _infix("<="),
    "gt": _infix(">"),
    "ge": _infix(">="),
    "logical_and": Op("{0} && {1}", "{0} & {1}"),
    "logical_or": Op("{0} || {1}", "{0} | {1}"),
    "logical_xor": Op("{0} != {1}", "{0} != {1}"),
    "logical_not": Op("!{0}", "{0} == 0"),
    "bitwise_and": _infix("&"),
    "bitwise_or": _infix("|"),
    "bitwise_xor": _infix("^"),
    "bitwise_not": Op("~{0}", "~{0}"),
    "isnan": Op("{0} != {0}", "{0} != {0}"),
    "isinf": Op("fabs{f}({0}) == {inf}", "tl.abs({0}) == float('inf')"),
    "signbit": Op("signbit({0})", "libdevice.signbit({0}) != 0"),
    "copysign": Op("copysign{f}({0}, {1})", "libdevice.copysign({0}, {1})"),
    # what a Welford reduction holds
    "welford_mean": Op("{0}.mean", "{0}_mean"),
    "welford_m2": Op("{0}.m2", "{0}_m2"),
    # what the online softmax reduction holds
    "online_max": Op("{0}.maximum", "{0}_maximum"),
    "online_sum": Op("{0}.total", "{0}_total"),
    "arg_index": Op("{0}.index", "{0}_index"),
    "cast": Op("{0}", "{0}"),
}


def functions() -> set[str]:
    """Names of the C++ functions that the table calls, for float and double: no variable's name."""
    words = {w for op in OPS.values() for w in re.findall(r"(\w+)(?:\{f\})?\(", op.cuda)}
    return words | {f"{w}f" for w in words} | {"div", "abs"}


COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "signbit"}
LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}

CTYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}
BYTES = {
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
COMPUTE = {"float16": "float32", "bfloat16": "float32"}  # everything else computes in itself
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
TRITON_TYPES = {name: f"tl.{name}" for name in CTYPES} | {"bool": "tl.int1"}


def compute_dtype(dtype: str) -> str:
    """The dtype that arithmetic on values of `dtype` is done in.

    >>> compute_dtype("bfloat16"), compute_dtype("int64")
    ('float32', 'int64')
    """
    return COMPUTE.get(dtype, dtype)


def is_float(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16", "float32", "float64")


def cuda_literal(value: float | int | bool, dtype: str) -> str:
    """A number as CUDA C++ text of the given compute dtype.

    >>> cuda_literal(2, "float32"), cuda_literal(True, "bool"), cuda_literal(-1, "int64")
    ('2.0f', 'true', '-1LL')
    """
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return f"{int(value)}LL" if dtype == "int64" else str(int(value))
    value = float(value)
    suffix = "" if dtype == "float64" else "f"
    if math.isnan(value):
        return (
            "__longlong_as_double(0x7ff8000000000000LL)"
            if not suffix
            else "__int_as_float(0x7fc00000)"
        )
    if math.isinf(value):
        text = (
            "__longlong_as_double(0x7ff0000000000000LL)"
            if not suffix
            else "__int_as_float(0x7f800000)"
        )
        return text if value > 0 else f"-{text}"
    return f"{value!r}{suffix}"


def triton_literal(value: float | int | bool, dtype: str) -> str:
    """A number as Triton text.

    >>> triton_literal(float("-inf"), "float32")
    "float('-inf')"
    """
    if dtype == "bool" or not is_float(dtype):
        return str(int(value))
    value = float(value)
    return repr(value) if math.isfinite(value) else f"float('{value}')"


@dataclass(frozen=True)
class Reduction:
    """A reduction as a C++ struct in templates/reducers.cuh.j2.

    struct: its name. result: the expression of its result, {0} the struct. fields: its members.
    """

    struct: str
    result: str = "{0}.total"
    fields: tuple[str, ...] = ("total",)


REDUCTIONS = {
    "sum": Reduction("Sum"),
    "prod": Reduction("Product"),
    "max": Reduction("Maximum"),
    "min": Reduction("Minimum"),
    "any": Reduction("Any"),
    "all": Reduction("All"),
    "argmax": Reduction("ArgMaximum", "{0}.index", ("value", "index")),
    "argmin": Reduction("ArgMinimum", "{0}.index", ("value", "index")),
    "welford": Reduction("Welford", "{0}", ("mean", "m2", "count")),
    "online": Reduction("OnlineSoftmax", "{0}", ("maximum", "total")),
}
