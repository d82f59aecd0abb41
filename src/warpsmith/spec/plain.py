"""Turn the frozen nouns into plain JSON data and back, so that strangers can read a journal."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses become dicts, enums their value, tuples lists; floats that JSON lacks become text.

    >>> to_plain((1, math.inf))
    [1, 'inf']
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} is not plain data: {value!r}")


def from_plain(kind: type[T], data: Any) -> T:
    """The inverse of `to_plain`, steered by the type hints of the dataclass `kind`.

    Unknown keys are ignored, so that an older warpsmith reads a newer journal.
    """
    return _build(kind, data)


def _build(kind: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _build_union(arguments, data)
    if kind is Any or data is None:
        return data
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        known = {f.name for f in dataclasses.fields(kind) if f.init}
        return kind(**{k: _build(hints[k], v) for k, v in data.items() if k in known})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if origin is tuple:
        variadic = len(arguments) == 2 and arguments[1] is Ellipsis
        each = [arguments[0]] * len(data) if variadic else arguments
        return tuple(_build(k, v) for k, v in zip(each, data))
    if origin is list:
        return [_build(arguments[0], v) for v in data]
    if origin is not None and issubclass(origin, Mapping):
        return {k: _build(arguments[1], v) for k, v in data.items()}
    return float(data) if kind is float else data


def _build_union(choices: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    for choice in choices:
        if dataclasses.is_dataclass(choice) and isinstance(data, dict):
            return _build(choice, data)
    plain = [c for c in choices if c is not type(None)]
    if len(plain) == 1:
        return _build(plain[0], data)
    return data
