"""Floating-point arithmetic of f32, f64, f16, bf16 and their packed forms."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from .form import Form, alu, halves, unsigned, width, words

# type -> (raw bits to a C float or double, back, sign bit)
FLOATS = {
    "f32": ("w_f32", "w_b32", "0x80000000u"),
    "f64": ("w_f64", "w_b64", "0x8000000000000000ull"),
    "f16": ("w_h2f", "w_f2h", "0x8000u"),
    "bf16": ("w_b2f", "w_f2b", "0x8000u"),
}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_ROUNDED = "rn rz rm rp"
_SIGN = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def load(name: str, x: str) -> str:
    """Raw bits as a C float or double."""
    return f"{FLOATS[name][0]}({x})"


def store(name: str, x: str) -> str:
    """A C float or double as raw bits of a type, rounded to nearest even."""
    return f"{FLOATS[name][1]}({x})"


def flush(form: Form, name: str, x: str) -> str:
    """Raw bits with subnormals flushed, where the instruction says `.ftz`."""
    return f"w_ftz_{name}({x})" if form.has("ftz") and name in ("f32", "f16") else x


def finish(form: Form, name: str, x: str) -> str:
    """A result's raw bits, flushed and clamped as the modifiers say, a NaN of f32 made canonical."""
    x = flush(form, name, x)
    if name == "f32" and not form.has("sat", "relu"):
        x = f"w_nan_f32({x})"
    for mod in ("sat", "relu"):
        if form.has(mod):
            x = f"w_{mod}_{name}({x})"
    return unsigned(width(name), x)


def packed(form: Form, args: list[str], rule: Callable[[Form, list[str]], str]) -> str:
    """Apply a rule of the scalar type to both parts of packed operands."""
    single = form.but(types=(*form.types[:-1], PACKED[form.type]))
    split, join = (words, "w_pack32") if form.type == "f32x2" else (halves, "w_pack16")
    low, high = zip(*map(split, args))
    return f"{join}({rule(single, list(low))}, {rule(single, list(high))})"


def _mode(form: Form) -> int:
    return MODES[form.one_of(MODES, "rn")]


def _directed(form: Form, operation: str, a: list[str]) -> str:
    """An operation that rounds otherwise than to nearest: in the lane loop, or in rare.c."""
    if form.type == "f32" and operation in ("add", "sub", "mul", "fma"):
        return f"w_{operation}_directed_f32({_mode(form)}, {', '.join(a)})"
    operands = ", ".join((*a, "0", "0")[:3])
    return f"w_directed_{form.type}(W_{operation.upper()}, {_mode(form)}, {operands})"


@alu("add sub mul", types="f32 f64", mods=f"{_ROUNDED} ftz sat")
def add(form: Form, a: list[str]) -> str:
    name = form.type
    x, y = (flush(form, name, v) for v in a)
    if _mode(form):
        value = _directed(form, form.base, [x, y])
        value = flush_tiny(form, "product", [x, y], value) if form.base == "mul" else value
        return finish(form, name, value)
    value = store(name, f"{load(name, x)} {_SIGN[form.base]} {load(name, y)}")
    if form.base == "mul":
        value = flush_tiny(form, "product", [x, y], value)
    return finish(form, name, value)


def flush_tiny(form: Form, operation: str, a: list[str], value: str) -> str:
    """With `.ftz`: a product or fma whose exact value is subnormal is flushed before it is rounded."""
    if not form.has("ftz") or form.type not in ("f32", "f16"):
        return value
    return f"w_ftz_{operation}_{form.type}({', '.join(a)}, {value})"


def widened(form: Form, a: list[str]) -> tuple[Form, list[str]]:
    """`add.f32.bf16 d, a, c` · `fma.f32.bf16 d, a, b, c` (sm_100): all but the last operand are
    narrow, the operation is f32's."""
    wide = [f"w_b32({load(form.type, unsigned(16, x))})" for x in a[:-1]]
    return form.but(types=("f32",)), [*wide, a[-1]]


@alu("add sub mul", types="f16 bf16", mods=f"{_ROUNDED} ftz sat", also="f32")
def add_half(form: Form, a: list[str]) -> str:
    name = form.type
    if "f32" in form.types and form.base != "mul":
        return add(*widened(form, a))
    if "f32" in form.types or _mode(form):
        return form.refuse("only additions and subtractions of f32 take a narrow operand")
    x, y = (flush(form, name, v) for v in a)
    if form.base == "mul" and name == "bf16":
        return finish(form, name, f"w_mul_bf16({x}, {y})")
    return add(form.but(mods=tuple(m for m in form.mods if m != "rn")), [x, y])


@alu("add sub mul", types="f16x2 bf16x2 f32x2", mods=f"{_ROUNDED} ftz sat")
def add_packed(form: Form, a: list[str]) -> str:
    return packed(form, a, add if form.type == "f32x2" else add_half)


@alu("fma mad", types="f32 f64", mods=f"{_ROUNDED} ftz sat")
def fma(form: Form, a: list[str]) -> str:
    name = form.type
    x = [flush(form, name, v) for v in a]
    if _mode(form):
        return finish(form, name, flush_tiny(form, "fma", x, _directed(form, "fma", x)))
    operands = ", ".join(load(name, v) for v in x)
    value = store(name, f"w_fma_{name}({operands})")
    return finish(form, name, flush_tiny(form, "fma", x, value))


@alu("fma", types="f16 bf16", mods=f"{_ROUNDED} ftz sat relu oob", also="f32")
def fma_half(form: Form, a: list[str]) -> str:
    name = form.type
    if "f32" in form.types:
        return fma(*widened(form, a))
    if _mode(form):
        return form.refuse("half precision rounds to nearest")
    x = [flush(form, name, v) for v in a]
    value = flush_tiny(form, "fma", x, f"w_fma_{name}({', '.join(x)})")
    return finish(form, name, out_of_bounds(form, x, value))


def out_of_bounds(form: Form, a: list[str], value: str) -> str:
    """`.oob`: an operand that marks what was loaded out of bounds, 0xffff, makes the result zero."""
    if not form.has("oob"):
        return value
    marked = " | ".join(f"((u32)({x}) == 0xffffu)" for x in a[:2])
    return f"(({marked}) ? 0 : {value})"


@alu("fma", types="f16x2 bf16x2 f32x2", mods=f"{_ROUNDED} ftz sat relu oob")
def fma_packed(form: Form, a: list[str]) -> str:
    return packed(form, a, fma if form.type == "f32x2" else fma_half)


@alu("div", types="f32 f64", mods=f"{_ROUNDED} ftz approx full")
def div(form: Form, a: list[str]) -> str:
    name = form.type
    x, y = (flush(form, name, v) for v in a)
    if _mode(form):
        return finish(form, name, _directed(form, "div", [x, y]))
    if form.has("approx"):
        return finish(form, name, f"w_div_approx_f32({x}, {y})")
    return finish(form, name, store(name, f"{load(name, x)} / {load(name, y)}"))


@alu("rcp sqrt rsqrt", types="f32", mods=f"{_ROUNDED} ftz approx")
def reciprocal(form: Form, a: list[str]) -> str:
    x = flush(form, "f32", a[0])
    if _mode(form):
        one = ("div", ["0x3f800000u", x]) if form.base == "rcp" else (form.base, [x])
        return finish(form, "f32", _directed(form, *one))
    return finish(form, "f32", f"w_{form.base}_f32({x})")


@alu("rcp sqrt rsqrt", types="f64", mods=f"{_ROUNDED} ftz approx")
def reciprocal_double(form: Form, a: list[str]) -> str:
    """`.approx` reads and writes the upper 32 bits alone."""
    if _mode(form):
        one = ("div", ["0x3ff0000000000000ull", a[0]]) if form.base == "rcp" else ("sqrt", a)
        return _directed(form, *one)
    x = f"w_f64({a[0]})"
    root = f"__builtin_sqrt({x})"
    exact = {"rcp": f"1. / {x}", "sqrt": root, "rsqrt": f"1. / {root}"}[form.base]
    return f"(w_b64({exact}){' >> 32 << 32' if form.has('approx') and form.has('ftz') else ''})"


@alu("ex2 lg2 sin cos tanh", types="f32", mods="approx ftz")
def special(form: Form, a: list[str]) -> str:
    return finish(form, "f32", f"w_{form.base}_f32({flush(form, 'f32', a[0])})")


@alu("ex2 tanh", types="f16 bf16", mods="approx ftz")
def special_half(form: Form, a: list[str]) -> str:
    name = form.type
    wide = f"w_b32({load(name, flush(form, name, a[0]))})"
    wide = f"w_ftz_f32({wide})" if form.has("ftz") and name == "bf16" else wide
    value = f"w_f32(w_{form.base}_f32({wide}))"
    if form.has("ftz") and name == "bf16":
        value = f"w_f32(w_ftz_f32(w_b32({value})))"
    return finish(form, name, store(name, value))


@alu("ex2 tanh", types="f16x2 bf16x2", mods="approx ftz")
def special_packed(form: Form, a: list[str]) -> str:
    return packed(form, a, special_half)


@alu("neg abs", types="f32 f64 f16 bf16", mods="ftz")
def negate(form: Form, a: list[str]) -> str:
    sign = FLOATS[form.type][2]
    operation = f"^ {sign}" if form.base == "neg" else f"& ~{sign}"
    value = unsigned(form.width, f"({a[0]}) {operation}")
    if form.type == "f64":
        return f"w_quiet_f64({a[0]}, {value})"
    if form.type != "f32":
        value = f"w_nan_{form.type}({value})"
    return finish(form, form.type, value)


@alu("neg abs", types="f16x2 bf16x2", mods="ftz")
def negate_packed(form: Form, a: list[str]) -> str:
    return packed(form, a, negate)


@alu("min max", types="f32 f64 f16 bf16", mods="ftz NaN xorsign abs")
def minimum(form: Form, a: list[str]) -> str:
    """Two or three operands; `.NaN` lets a NaN win; `.xorsign.abs` compares magnitudes."""
    name, bits, sign = form.type, form.width, FLOATS[form.type][2]
    x = [unsigned(bits, flush(form, name, v)) for v in a]
    magnitudes = [unsigned(bits, f"{v} & ~{sign}") for v in x] if form.has("abs") else x
    function = f"w_{form.base}{'_nan' if form.has('NaN') else ''}_{name}"
    best = magnitudes[0]
    for other in magnitudes[1:]:
        best = f"{function}({best}, {other})"
    if form.has("xorsign"):
        best = f"{best} | (({' ^ '.join(x)}) & {sign})"
        best = f"w_nan_{name}({best})" if name != "f64" else best
    return unsigned(bits, best)


@alu("min max", types="f16x2 bf16x2", mods="ftz NaN xorsign abs")
def minimum_packed(form: Form, a: list[str]) -> str:
    return packed(form, a, minimum)


@alu("copysign", types="f32 f64")
def copysign(form: Form, a: list[str]) -> str:
    """The magnitude of b with the sign of a."""
    sign = FLOATS[form.type][2]
    return unsigned(form.width, f"(({a[0]}) & {sign}) | (({a[1]}) & ~{sign})")


@alu("testp", types="f32 f64", mods="finite infinite number notanumber normal subnormal")
def testp(form: Form, a: list[str]) -> str:
    bits = form.width
    sign, inf, least = {
        32: ("0x80000000u", "0x7f800000u", "0x00800000u"),
        64: ("0x8000000000000000ull", "0x7ff0000000000000ull", "0x0010000000000000ull"),
    }[bits]
    m = f"((u{bits})({a[0]}) & ~{sign})"
    test = {
        "finite": f"{m} < {inf}",
        "infinite": f"{m} == {inf}",
        "number": f"{m} <= {inf}",
        "notanumber": f"{m} > {inf}",
        "normal": f"({m} < {inf}) & (({m} >= {least}) | ({m} == 0))",
        "subnormal": f"({m} != 0) & ({m} < {least})",
    }[form.mods[0]]
    return f"(u32)({test})"
