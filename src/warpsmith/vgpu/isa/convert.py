"""cvt in all its forms: integers, floats, packed halves, tf32, 8-bit and smaller floats."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from .floating import FLOATS, MODES, PACKED, finish, flush, load
from .form import Form, alu, halves, typed, unsigned, width

_INT = "u8 s8 u16 s16 u32 s32 u64 s64"
_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_SMALL = {"e4m3x2": "W_E4M3", "e5m2x2": "W_E5M2", "e2m1x2": "W_E2M1", "e2m3x2": "W_E2M3",
          "e3m2x2": "W_E3M2"}  # fmt: skip
_FAST = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}  # those that lane.h converts
_MODS = "rn rz rm rp rni rzi rmi rpi ftz sat"
_TO_HALF = {"f16": ("w_f2h", "w_d2h"), "bf16": ("w_f2b", "w_d2b")}


def _limits(name: str) -> tuple[int, int]:
    bits = width(name)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "s" else (0, (1 << bits) - 1)


def _literal(value: int) -> str:
    return "(-9223372036854775807ll - 1)" if value == -(1 << 63) else f"{value}ll"


def _clamped(source: str, target: str, x: str) -> str:
    """An integer of one type clamped to the range of another."""
    low, high = _limits(target)
    if source[0] == "u":
        return f"w_clamp_u64({typed(source, x)}, {high}ull)"
    high = min(high, (1 << 63) - 1)
    return f"w_clamp_s64((u64)(s64){typed(source, x)}, {_literal(low)}, {_literal(high)})"


@alu("cvt", types=_INT, also=f"{_INT} f16 bf16 f32 f64", mods="rn rz rm rp sat pack")
def from_integer(form: Form, a: list[str]) -> str:
    if form.has("pack"):
        return pack_pair(form, a)
    form.expect(a, 1)
    target, source = form.types
    if target in FLOATS:
        return finish(form, target, _integer_to_float(form, target, source, a[0]))
    value = _clamped(source, target, a[0]) if form.has("sat") else typed(source, a[0])
    return typed(target, value)


def _integer_to_float(form: Form, target: str, source: str, x: str) -> str:
    mode, kind = MODES[form.one_of(MODES, "rn")], "s" if source[0] == "s" else "u"
    value = typed(source, x)
    if target in _TO_HALF:
        wide = f"w_odd_{kind}64({value})" if width(source) == 64 else f"(double){value}"
        return _narrow(target, mode, wide)
    if mode:
        return f"w_directed_{kind}64_to_{target}({mode}, (u64)({kind}64){value})"
    return f"{FLOATS[target][1]}(({'float' if target == 'f32' else 'double'}){value})"


def _narrow(target: str, mode: int, wide: str, saturate: int = 0) -> str:
    """A C double, rounded once to f16 or bf16."""
    if mode == 0 and not saturate:
        return f"{_TO_HALF[target][1]}({wide})"
    return f"w_encode(W_{target.upper()}, {mode}, {saturate}, 0, {wide})"


@alu("cvt", types="f16 bf16 f32 f64", also=f"{_INT} f16 bf16 f32 f64 f16x2 bf16x2 tf32 ue8m0x2 "
     + " ".join(_SMALL), mods=f"{_MODS} relu satfinite rna")  # fmt: skip
def from_float(form: Form, a: list[str]) -> str:
    target, source = form.types
    small = target in _SMALL or target == "ue8m0x2"
    form.expect(a, 2 if small or target in PACKED else 1)
    if target == "tf32":
        return _to_tf32(form, a[0])
    if target in PACKED:
        return _pack_halves(form, a)
    if small:
        return _pack_small(form, [load(source, v) for v in a])
    half = target in _TO_HALF  # `.ftz` of a conversion to a half does nothing on a GPU
    x = flush(form, source, a[0]) if source == "f32" and not half else a[0]
    if source == "f32" and target == "f64" and form.has("ftz"):
        x = f"w_nan_f32({x})"
    value = load(source, x)
    if target in FLOATS:
        plain = form.but(mods=_without_half_flush(form, target))
        value = _float_to_float(form, target, source, x, value)
        if target == "f32" and _keeps_payload(source, plain):
            return unsigned(32, flush(plain, target, value))
        return finish(plain, target, value)
    return _float_to_integer(form, target, source, value)


def _keeps_payload(source: str, form: Form) -> bool:
    """Whether a conversion to f32 leaves a NaN's payload: from f64 and bf16, and a plain move."""
    if form.has("sat"):
        return False
    return source in ("f64", "bf16") or (source == "f32" and not form.mods)


def _without_half_flush(form: Form, target: str) -> tuple[str, ...]:
    """`.ftz` of a conversion flushes f32 values, not halves."""
    return tuple(m for m in form.mods if m != "ftz" or target == "f32")


def _integral(form: Form, source: str, value: str, default: str = "") -> str:
    rounding = _INTEGRAL.get(form.one_of(_INTEGRAL, default))
    if rounding is None:
        return value
    return f"__builtin_{rounding}{'' if source == 'f64' else 'f'}({value})"


def _float_to_integer(form: Form, target: str, source: str, value: str) -> str:
    """Clamped to the target; a NaN gives 0, or the top bit where source or target has 64 bits."""
    bits, kind = width(target), target[0]
    whole = _integral(form, source, value, "rzi")
    if bits == 64:
        return typed(target, f"w_f64_to_{target}({whole})")
    if source == "f64":
        return typed(target, f"w_f64_to_{kind}({whole}, {bits})")
    result = f"w_f32_to_{kind}32({whole})"
    return typed(target, result if bits == 32 else _clamped(f"{kind}32", target, result))


def _float_to_float(form: Form, target: str, source: str, x: str, value: str) -> str:
    mode = MODES[form.one_of(MODES, "rn")]
    value = _integral(form, source, value)
    if target in _TO_HALF:
        half = _to_half(form, target, source, mode, value)
        keeps = source == "f64" and not form.has("sat", "relu", "satfinite")
        return f"w_payload_{target}({x}, {half})" if keeps else half
    if target == "f32" and source == "f64" and mode:
        return f"w_directed_f64_to_f32({mode}, w_b64({value}))"
    if target == source and not form.has(*_INTEGRAL):
        return unsigned(width(target), x)
    return f"{FLOATS[target][1]}(({'float' if target == 'f32' else 'double'})({value}))"


def _to_half(form: Form, target: str, source: str, mode: int, value: str) -> str:
    saturate = int(form.has("satfinite"))
    if source != "f64" and not saturate and mode < 2:
        return f"{_TO_HALF[target][0]}{'_rz' if mode else ''}({value})"
    return _narrow(target, mode, f"(double)({value})", saturate)


def _pack_halves(form: Form, a: list[str]) -> str:
    """The first operand goes to the upper half."""
    half, source = PACKED[form.types[0]], form.types[1]
    if source != "f32":
        form.refuse("packs of halves are made from f32")
    mode = MODES[form.one_of(MODES, "rn")]
    parts = [
        finish(form.but(mods=_without_half_flush(form, half)), half,
               _to_half(form, half, source, mode, load("f32", flush(form, "f32", v))))
        for v in a
    ]  # fmt: skip
    return f"w_pack16({parts[1]}, {parts[0]})"


def _to_tf32(form: Form, x: str) -> str:
    """Rounded to 10 bits of significand. A NaN is cut by `.rna` and made canonical by `.rn` and `.rz`;
    `.satfinite` lowers what has the highest exponent by one unit, as ptxas's code does."""
    bits = f"((u32)({x}))"
    nudge = {"rna": "0x1000u", "rn": f"0xfffu + ({bits} >> 13 & 1)", "rz": "0"}
    mode = form.one_of(nudge, "rna")
    moved = f"({bits} + {nudge[mode]}) & 0xffffe000u"
    nan = f"({bits} & 0x7fffffffu) > 0x7f800000u"
    value = f"({nan} ? {f'{bits} & 0xffffe000u' if mode == 'rna' else '0x7fffe000u'} : {moved})"
    if form.has("satfinite"):
        value = f"({value} - (({value} & 0x7f800000u) == 0x7f800000u ? 0x2000u : 0))"
    if form.has("relu"):
        value = f"({value} >> 31 ? 0 : {value})"
    return unsigned(32, value)


def _pack_small(form: Form, values: list[str]) -> str:
    """Two small floats; the first value goes to the upper part."""
    target = form.types[0]
    mode = MODES[form.one_of(MODES, "rn")]
    saturate, relu = int(form.has("satfinite")), int(form.has("relu"))
    if target in _FAST and saturate and not mode:
        codes = [f"w_f2{_FAST[target]}({v})" for v in values]
        codes = [f"w_relu_8({c})" for c in codes] if relu else codes
    elif target == "ue8m0x2":
        codes = [f"w_encode_ue8m0({mode}, {saturate}, {v})" for v in values]
    else:
        codes = [f"w_encode({_SMALL[target]}, {mode}, {saturate}, {relu}, (double){v})"
                 for v in values]  # fmt: skip
    shift = 4 if target == "e2m1x2" else 8
    return unsigned(8 if shift == 4 else 16, f"{codes[0]} << {shift} | {codes[1]}")


@alu(
    "cvt", types="f16x2 bf16x2", also=f"ue8m0x2 {' '.join(_SMALL)}", mods="rn rz rp satfinite relu"
)
def from_packed(form: Form, a: list[str]) -> str:
    form.expect(a, 1)
    low, high = halves(a[0])
    return _pack_small(form, [load(PACKED[form.type], v) for v in (high, low)])


@alu("cvt", types=" ".join(_SMALL), also="f16x2", mods="rn relu")
def from_small(form: Form, a: list[str]) -> str:
    bits, mask = (4, 15) if form.type == "e2m1x2" else (8, 255)
    parts = [f"((u32)({a[0]}) & {mask})", f"((u32)({a[0]}) >> {bits} & {mask})"]
    if form.type in _FAST:
        values = [f"w_{_FAST[form.type]}_to_f16({p})" for p in parts]
    else:
        values = [f"w_d2h(w_decode({_SMALL[form.type]}, {p}))" for p in parts]
    return "w_pack16({}, {})".format(*(finish(form, "f16", v) for v in values))


@alu("cvt", types="ue8m0x2", also="bf16x2", mods="rn")
def from_scale(form: Form, a: list[str]) -> str:
    """A power of two, 2**(code - 127); 0xff is NaN."""
    codes = [f"((u32)({a[0]}) & 255)", f"((u32)({a[0]}) >> 8 & 255)"]
    values = [f"({c} == 255 ? 0x7fffu : {c} ? {c} << 7 : 0x40u)" for c in codes]
    return "w_pack16({}, {})".format(*values)


@alu("cvt", types="b32", also="u2 s2 u4 s4 u8 s8 u16 s16 s32", mods="pack sat")
def pack_integers(form: Form, a: list[str]) -> str:
    """Saturate a and b into the low bits, below what c holds, shifted up: b is the lowest."""
    form.expect(a, 3)
    target, bits = form.types[0], width(form.types[0])
    mask = (1 << bits) - 1
    parts = [f"((u32){_clamped('s32', target, v)} & {mask})" for v in a[:2]]
    return unsigned(32, f"(u32)({a[2]}) << {2 * bits} | {parts[0]} << {bits} | {parts[1]}")


def pack_pair(form: Form, a: list[str]) -> str:
    """`cvt.pack.sat.u16.s32 d, a, b`: a goes to the upper half."""
    form.expect(a, 2)
    parts = [f"(u32){_clamped('s32', form.types[0], v)}" for v in a[:2]]
    return f"w_pack16({parts[1]}, {parts[0]})"
