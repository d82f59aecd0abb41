"""A written kernel, and the templates that kernels are written with."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .writer import Argument


@dataclass(frozen=True)
class Kernel:
    """A written kernel: its text, its entry points and how the host launches it.

    grid, block: Python text over the sizes' names. The kernel is a template over its index type.
    """

    name: str
    text: str
    arguments: tuple[Argument, ...]
    grid: str
    block: str
    setup: tuple[str, ...] = ()  # host lines before the launch
    scratch: str = ""  # bytes of a scratch tensor that comes last among the arguments
    second: Kernel | None = None  # a further kernel that runs after it
    parameters: Mapping[str, Any] | None = None


@cache
def templates() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(__name__.rpartition(".")[0], "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, **context: Any) -> str:
    """A template's text, without runs of blank lines and with long lines folded."""
    text = templates().get_template(template).render(**context)
    blank = 2 if template.endswith(".py.j2") else 1
    text = re.sub(rf"\n{{{blank + 2},}}", "\n" * (blank + 1), text).strip()
    return "\n".join(_fold(line) for line in text.split("\n")) + "\n"


def _fold(line: str) -> str:
    """A line of at most 100 characters, continued with an indent (comments as comments)."""
    if len(line) <= 100 or '"' in line:
        return line
    comment = "//" if line.startswith("//") else "#" if line.startswith("# ") else ""
    separator = " · " if comment and " · " in line else ", "
    if separator not in line:
        return line
    indent = f"{comment}   " if comment else " " * (len(line) - len(line.lstrip()) + 4)
    opened = 0 if comment else line.find("(") + 1  # fold inside brackets only
    if not opened and not comment:
        return line
    first, *parts = line[opened:].split(separator)
    lines, current = [], line[:opened] + first
    for part in parts:
        if len(current) + len(part) + len(separator) > 99:
            lines.append(current + separator.rstrip())
            current = indent + part
        else:
            current = f"{current}{separator}{part}"
    return "\n".join([*lines, current])


TOTALS = {"batches", "rows", "cols", "depth"}


def used_arguments(arguments: list[Argument], lines: list[str]) -> list[Argument]:
    """Arguments without the sizes that no line speaks of."""
    words = set(re.findall(r"\w+", "\n".join(lines)))
    return [a for a in arguments if a.kind not in ("size", "number") or a.name in words | TOTALS]


MAX_BLOCKS = 2**31 - 1


def grid_text(count: str, each: int, parameters: Mapping[str, Any]) -> str:
    """Host text of a one-dimensional grid: 'blocks(rows, 256)', with a cap where one is asked for."""
    most = parameters.get("max_blocks", MAX_BLOCKS)
    return f"blocks({count}, {each})" if most == MAX_BLOCKS else f"blocks({count}, {each}, {most})"
