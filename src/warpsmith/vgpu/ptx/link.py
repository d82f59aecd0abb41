"""Put several PTX texts together as one module, as a device linker does."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Sequence

from warpsmith.errors import PtxError

from . import ir
from .parse import parse


def link(texts: Sequence[str]) -> ir.Module:
    """The module of all texts: declarations meet definitions, names without linkage stay apart.

    A weak definition yields to a strong one. Raises PtxSyntaxError for malformed text and PtxError for
    a name that two texts define.
    """
    result = parse(texts[0])
    for number, text in enumerate(texts[1:], 1):
        module = parse(text)
        taken = result.functions.keys() | result.variables.keys()
        clashing = (module.local & taken) | (
            result.local & (module.functions.keys() | module.variables.keys())
        )
        if clashing:
            module = parse(_renamed(text, clashing, number))
        _merge(result, module)
    return result


def _renamed(text: str, names: set[str], number: int) -> str:
    """The text with these names made its own."""
    words = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(rf"(?<![\w$%])(?:{words})(?![\w$])", lambda m: f"{m[0]}$link{number}", text)


def _merge(into: ir.Module, other: ir.Module) -> None:
    weak = {n for n in into.weak | other.weak if not _strong(n, into, other)}
    for name, function in other.functions.items():
        known = into.functions.get(name)
        if known is None or _replaces(name, into, other, known.defined, function.defined):
            into.functions[name] = function
    for name, variable in other.variables.items():
        seen = into.variables.get(name)
        if seen is None or _replaces(name, into, other, not seen.external, not variable.external):
            into.variables[name] = variable
    into.aliases |= other.aliases
    into.local |= other.local
    into.weak = weak


def _strong(name: str, into: ir.Module, other: ir.Module) -> bool:
    """Whether one of the modules names a symbol that is weak in the other, without .weak."""
    return any(name not in module.weak and module.defines(name) for module in (into, other))


def _replaces(name: str, into: ir.Module, other: ir.Module, known: bool, new: bool) -> bool:
    """Whether the new definition of a name takes the place of the known one."""
    if not (known and new):
        return new
    if name not in into.weak and name not in other.weak:
        raise PtxError(
            f"{name!r} is defined in two of the linked texts: make one of them .weak or .extern"
        )
    return name in into.weak and name not in other.weak
