"""SIMD video instructions, which work on two halves or four bytes of a word."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from .form import Form, alu

_OPERATIONS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")


@alu(" ".join(f"{o}{n}" for o in _OPERATIONS for n in (2, 4)),
     types="u32 s32", also="u32 s32", mods="sat add")  # fmt: skip
def video(form: Form, a: list[str]) -> str:
    """`vabsdiff4.u32.u32.u32.add d, a, b, c`: `.add` sums the parts onto c, else c is not used."""
    if len(form.types) != 3:
        form.refuse("it names three types: destination, a, b")
    target, x, y = form.types
    signs = [f"W_SIGNED_{n}" for n, t in (("D", target), ("A", x), ("B", y)) if t == "s32"]
    extra = [n for n, m in (("W_SATURATE", "sat"), ("W_ACCUMULATE", "add")) if form.has(m)]
    flags = " | ".join(signs + extra) or "0"
    name, lanes = form.base[:-1], form.base[-1]
    return f"w_video(W_{name.upper()}, {lanes}, {flags}, {a[0]}, {a[1]}, {a[2]})"
