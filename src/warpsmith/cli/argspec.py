"""Kernel arguments from the command line: `randn:f32[1024,16]`, `zeros:f16[64]`, `1024`, `0.5`."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import UsageError

DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "bool": "bool",
}
KINDS = ("randn", "rand", "zeros", "ones", "arange", "full(VALUE)")
EXAMPLES = "randn:f32[1024,16], zeros:f16[64], arange:i32[10], full(3):f32[8], 1024, 0.5"

_TENSOR = re.compile(r"(\w+)(?:\(([^)]*)\))?:(\w+)\[([\d,\s]*)\]")


def parse(text: str, seed: int = 0) -> Any:
    """A CPU tensor or a number. Random values depend on `seed` alone. Raises UsageError.

    >>> parse("1024"), parse("0.5"), parse("1e-3")
    (1024, 0.5, 0.001)
    >>> parse("arange:i32[2,3]").tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    match = _TENSOR.fullmatch(text.strip())
    if match is None:
        return _number(text)
    kind, value, short, dims = match.groups()
    if short not in DTYPES:
        raise UsageError(f"{text!r}: no dtype {short!r}; one of {', '.join(DTYPES)}")
    if kind not in _MAKE or (kind == "full") != (value is not None):
        raise UsageError(f"{text!r}: expected one of {', '.join(KINDS)} before the colon")
    import torch

    shape = [int(d) for d in dims.split(",") if d.strip()]
    generator = torch.Generator().manual_seed(seed)
    made = _MAKE[kind](shape, generator, _number(value) if value is not None else 0)
    return made.to(getattr(torch, DTYPES[short]))


def named(text: str) -> tuple[str, str]:
    """The two sides of `name=spec`; the name is empty where none is given.

    >>> named("x=zeros:f32[4]"), named("4")
    (('x', 'zeros:f32[4]'), ('', '4'))
    """
    name, sign, spec = text.partition("=")
    return (name.strip(), spec) if sign else ("", text)


def _number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise UsageError(f"{text!r} is no argument; expected something like {EXAMPLES}")


def _arange(shape: list[int], generator: Any, value: float) -> Any:
    import math

    import torch

    return torch.arange(math.prod(shape)).reshape(shape)


def _torch(name: str, random: bool = False) -> Callable[[list[int], Any, float], Any]:
    def make(shape: list[int], generator: Any, value: float) -> Any:
        import torch

        return getattr(torch, name)(shape, **({"generator": generator} if random else {}))

    return make


def _full(shape: list[int], generator: Any, value: float) -> Any:
    import torch

    return torch.full(shape, value)


_MAKE: dict[str, Callable[[list[int], Any, float], Any]] = {
    "randn": _torch("randn", random=True),
    "rand": _torch("rand", random=True),
    "zeros": _torch("zeros"),
    "ones": _torch("ones"),
    "arange": _arange,
    "full": _full,
}
