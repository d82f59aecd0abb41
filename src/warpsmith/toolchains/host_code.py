"""Leave the host's functions out of a CUDA source, as nvcc's device pass does, every line in place."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .signature import without_comments

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_SCOPE = re.compile(r"(?:^|\W)(?:namespace\b[^;(){}]*|extern\s*)$")
_NAME = re.compile(r"([\w~]+)\s*\(")
# what only a host can do; the two calls of the runtime that kernels make are no sign of one
_HOST_ONLY = re.compile(
    r"<<<|\bcuda(?!TriggerProgrammaticLaunchCompletion|GridDependencySynchronize)[A-Z]\w*\s*\("
    r"|\bstd\s*::\s*(?:vector|string|cout|cerr|endl|map|unique_ptr|mt19937|chrono)\b"
)


@dataclass(frozen=True, slots=True)
class _Function:
    start: int
    end: int
    name: str
    head: str
    body: str


def without_host_code(text: str) -> str:
    """The source with blanks for every function that only a host can run.

    These are `main`, functions marked `__host__` alone, and unmarked ones that launch kernels, call
    the CUDA runtime or use a host library, and whatever unmarked function calls one of them.
    Functions marked `__global__` or `__device__` are never touched, and nothing else is.
    """
    if not re.search(r"__host__|<<<|\bmain\b|\bcuda[A-Z]|\bstd\s*::", text):
        return text
    scan = _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), without_comments(text))
    unmarked = [f for f in _functions(scan) if not re.search(r"__(?:global|device)__", f.head)]
    host = [f for f in unmarked if _is_host(f)]
    while True:
        names = {f.name for f in host}
        more = [f for f in unmarked if f not in host and names & set(_NAME.findall(f.body))]
        if not more:
            break
        host += more
    for f in host:
        text = text[: f.start] + re.sub(r"[^\n]", " ", text[f.start : f.end]) + text[f.end :]
    return text


def _is_host(function: _Function) -> bool:
    if function.name == "main" or "__host__" in function.head:
        return True
    return bool(_HOST_ONLY.search(function.head) or _HOST_ONLY.search(function.body))


def _functions(scan: str) -> Iterator[_Function]:
    """The function definitions at namespace scope of a text without comments and directives."""
    start, at = 0, 0
    while at < len(scan):
        c = scan[at]
        if c == "{":
            head = scan[start:at]
            if _SCOPE.search(head.rstrip()):
                start = at + 1
            else:
                end = _closing(scan, at)
                if name := _function_name(head):
                    first = start + len(head) - len(head.lstrip())
                    yield _Function(first, end, name, head, scan[at:end])
                start = at = end
                continue
        elif c in ";}":
            start = at + 1
        at += 1


def _function_name(head: str) -> str:
    """The name before the first parameter list of a definition; '' where there is none."""
    if re.search(r"\b(?:struct|class|enum|union)\s+[\w:<>, ]*$", head) or "=" in head.split("(")[0]:
        return ""
    bare = re.sub(r"\b(?:__launch_bounds__|__attribute__|alignas|decltype)\s*\([^)]*\)", " ", head)
    found = _NAME.search(bare)
    return found[1] if found else ""


def _closing(scan: str, opening: int) -> int:
    """Just past the brace that closes the one at `opening`; the end where none does."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(scan, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(scan)
