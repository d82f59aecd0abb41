"""Read what a CUDA kernel takes: names from the source, types from the mangled name, sizes from PTX."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..spec import Parameter


@dataclass(frozen=True, slots=True)
class Declared:
    """A `__global__` function as its source declares it."""

    name: str
    parameters: tuple[tuple[str, str], ...]  # (type, name)
    template: bool
    line: int  # from 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel as the PTX declares it: sizes of its parameters in bytes, and which are arrays."""

    name: str
    sizes: tuple[int, ...]
    aggregates: tuple[bool, ...]  # declared as .b8 name[n]: a class type in C++
    pointers: tuple[bool, ...]  # marked .ptr
    clusters: tuple[int, int, int] = (1, 1, 1)


# C++ spelling: bytes. What is not here is a pointer, an enumeration or a class.
SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1,
    "short": 2, "unsigned short": 2, "half": 2, "__nv_bfloat16": 2,
    "int": 4, "unsigned int": 4, "float": 4, "half2": 4, "__nv_bfloat162": 4,
    "long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8, "double": 8,
    "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1,
}  # fmt: skip

_ALIASES = {
    "__half": "half", "__half2": "half2", "nv_half": "half", "nv_bfloat16": "__nv_bfloat16",
    "nv_bfloat162": "__nv_bfloat162", "unsigned": "unsigned int", "signed": "int",
    "signed int": "int", "short int": "short", "signed short": "short", "long int": "long",
    "unsigned short int": "unsigned short", "unsigned long int": "unsigned long",
    "long long int": "long long", "long unsigned int": "unsigned long",
    "unsigned long long int": "unsigned long long", "long long unsigned int": "unsigned long long",
    "short unsigned int": "unsigned short", "signed long": "long", "signed long long": "long long",
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short",
    "uint16_t": "unsigned short", "int32_t": "int", "uint32_t": "unsigned int",
    "int64_t": "long long", "uint64_t": "unsigned long long", "size_t": "unsigned long",
    "ptrdiff_t": "long", "intptr_t": "long long", "uintptr_t": "unsigned long long",
    "uint": "unsigned int", "ushort": "unsigned short", "ulong": "unsigned long",
    "uchar": "unsigned char", "float_t": "float", "double_t": "double",
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_NOISE = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|register|struct|class"
    r"|enum|typename|std::|cuda::std::|::)(?=\W|$)|\bstd::|\bcuda::std::"
)
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\((.*?)\))?(.*?)[{;]", re.DOTALL)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([bsuf])(\d+)((?:\s+\.\w+|\s+\d+)*)\s+[\w$.%]+(?:\[(\d+)\])?"
)


def without_comments(text: str) -> str:
    """The text with comments and literals blanked, every line where it was."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def kernels(text: str) -> list[Declared]:
    """The `__global__` functions that a source declares, in order; a prototype and its body once.

    >>> [k.parameters for k in kernels("__global__ void f(const float* x, int n) {}")]
    [(('const float*', 'x'), ('int', 'n'))]
    """
    text = without_comments(text)
    found: dict[str, Declared] = {}
    for match in re.finditer(r"__global__\b", text):
        if declared := _declaration(text, match.end()):
            name, inside = declared
            head = text[max(text.rfind(c, 0, match.start()) for c in ";}#") + 1 : match.start()]
            line = text.count("\n", 0, match.start()) + 1
            parameters = tuple(_split_parameter(p) for p in split(inside))
            is_template = bool(re.search(r"\btemplate\s*<", head))
            if is_template and re.search(r"\btemplate\s*$", head):
                continue
            if re.search(r"\btemplate\s*$", head.strip()):  # an explicit instantiation
                continue
            found.setdefault(name, Declared(name, parameters, is_template, line))
    return list(found.values())


def entries(ptx: str) -> dict[str, Entry]:
    """The kernels of a PTX text, by name, in order."""
    found = {}
    for name, inside, tail in _ENTRY.findall(ptx):
        rows = [_PARAM.search(p) for p in (inside or "").split(",") if ".param" in p]
        fields = [row for row in rows if row]
        sizes = tuple(int(f[2]) // 8 * int(f[4] or 1) for f in fields)
        cluster = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", tail)
        found[name] = Entry(
            name,
            sizes,
            tuple(f[4] is not None for f in fields),
            tuple(".ptr" in f[3] for f in fields),
            tuple(int(n or 1) for n in cluster.groups()) if cluster else (1, 1, 1),  # type: ignore[arg-type]
        )
    return found


def parameters(entry: Entry, declared: Declared | None, text: str = "") -> tuple[Parameter, ...]:
    """What a launch must pass, for each parameter of a PTX entry.

    Types come from the mangled name, where typedefs and template arguments are resolved; from the
    declaration for `extern "C"` kernels. Where a type's size disagrees with the PTX, or there is no
    type, the PTX's size alone is kept and ctype is "".
    """
    count = len(entry.sizes)
    names = [n for _, n in declared.parameters] if declared else []
    names = names if len(names) == count else [""] * count
    types: list[str] = demangled_parameters(entry.name) or []
    if len(types) != count and declared and not declared.template:
        aliases = typedefs(text)
        types = [resolve(t, aliases) for t, _ in declared.parameters]
    types = types if len(types) == count else [""] * count
    return tuple(
        _parameter(t, n or f"argument {i}", size, aggregate, pointer)
        for i, (t, n, size, aggregate, pointer) in enumerate(
            zip(types, names, entry.sizes, entry.aggregates, entry.pointers)
        )
    )


def demangle(name: str) -> str:
    """The C++ declaration of a mangled name; the name itself where it is not one.

    >>> demangle("saxpy")
    'saxpy'
    """
    function = _demangler()
    if function is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        _libc().free(ctypes.c_void_p(pointer))


def readable(name: str) -> str:
    """A PTX entry's name as people write it: 'softmax<float, 4>', 'pack::scale', 'saxpy'."""
    text = demangle(name)
    end = _matching_open(text)
    head = text[:end] if end > 0 else text
    depth, start = 0, 0
    for i, c in enumerate(head):  # a template's name follows its return type and a blank
        depth += (c == "<") - (c == ">")
        if c == " " and depth == 0:
            start = i + 1
    return head[start:].replace("(anonymous namespace)::", "")


def demangled_parameters(name: str) -> list[str] | None:
    """Types in a mangled name, canonical; None where it is not mangled or nothing can read it."""
    text = demangle(name)
    start = _matching_open(text)
    if text == name or start < 0:
        return None
    inside = text[start + 1 : text.rindex(")")]
    return [] if inside in ("", "void") else [canonical(t) for t in split(inside)]


def canonical(text: str) -> str:
    """A type in the spelling of `SIZES`; the pointee's, and 'const' where it is, before a '*'.

    >>> canonical("float const*"), canonical("const uint32_t"), canonical("__half")
    ('const float*', 'unsigned int', 'half')
    """
    text = text.replace("&", "*").strip()
    if "(" in text:  # pointers to arrays and functions
        return "void*"
    stars = text.count("*")
    if not stars:
        return _plain(text)
    pointee = text[: text.rindex("*")].rstrip()
    is_const = bool(re.search(r"\bconst$", pointee) or ("*" not in pointee and "const" in pointee))
    inner = _plain(pointee.replace("*", " ")) + "*" * (stars - 1)
    return f"{'const ' if is_const else ''}{inner}*"


def typedefs(text: str) -> dict[str, str]:
    """Simple aliases of a source: `typedef X Y;`, `using Y = X;`, `#define Y X` for one type."""
    text = without_comments(text)
    found = {n: t for t, n in re.findall(r"\btypedef\s+([\w\s:*]+?)\s*\b(\w+)\s*;", text)}
    found |= dict(re.findall(r"\busing\s+(\w+)\s*=\s*([\w\s:*]+?)\s*;", text))
    found |= dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([\w ]+?)[ \t]*$", text, re.M))
    return found


def resolve(text: str, aliases: dict[str, str]) -> str:
    """The canonical type of a declared one, aliases followed."""
    for _ in range(8):
        words = re.findall(r"\w+", text)
        known = next((w for w in words if w in aliases and aliases[w] != w), None)
        if known is None:
            break
        text = re.sub(rf"\b{known}\b", aliases[known], text)
    return canonical(text)


def split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket, blanks trimmed."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last and last != "void" else parts


def _parameter(ctype: str, name: str, size: int, aggregate: bool, pointer: bool) -> Parameter:
    if pointer or (ctype.endswith("*") and size == 8 and not aggregate):
        element = ctype[:-1].removeprefix("const ") if ctype.endswith("*") else ""
        return Parameter("pointer", name, element, 8, ctype.startswith("const "))
    if SIZES.get(ctype) == size:
        return Parameter("scalar", name, ctype, size)
    known = ctype if ctype not in SIZES and not ctype.endswith("*") else ""
    return Parameter("struct" if aggregate else "scalar", name, known, size)


def _declaration(text: str, at: int) -> tuple[str, str] | None:
    """Name and text of the parameters of the declaration after `__global__`."""
    for opening in _opens(text, at):
        name = re.search(r"(\w+)\s*(?:<[^<>]*>)?\s*$", text[at:opening])
        if not name:
            return None
        closing = _closing(text, opening)
        if closing < 0:
            return None
        if name[1] in ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__",
                       "__attribute__", "alignas", "__align__"):  # fmt: skip
            continue
        return name[1], text[opening + 1 : closing]
    return None


def _opens(text: str, at: int) -> Iterator[int]:
    """Positions of the opening brackets at depth 0 after `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "(":
            if depth == 0:
                yield i
            depth += 1
        elif text[i] == ")":
            depth -= 1
        elif depth == 0 and text[i] in ";{":
            return


def _closing(text: str, opening: int) -> int:
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def _matching_open(text: str) -> int:
    """Where the parameter list of a demangled function opens: the bracket that the last one closes."""
    depth = 0
    for i in range(text.rfind(")"), -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if depth == 0:
            return i if text[i] == "(" else -1
    return -1


def _split_parameter(text: str) -> tuple[str, str]:
    """Type and name: 'const float* __restrict__ x[]' -> ('const float* *', 'x')."""
    text = text.split("=", 1)[0].strip()
    array = re.search(r"\[[^\]]*\]\s*$", text)
    body = text[: array.start()].rstrip() if array else text
    if function := re.match(r"(.*?)\(\s*[*&]\s*(\w*)\s*\)(.*)", body + (array[0] if array else "")):
        return f"{function[1].strip()} (*)", function[2]
    name = re.search(r"(\w+)$", body)
    known = name and (
        name[1] in SIZES or name[1] in _ALIASES or name[1] in ("const", "void", "int")
    )
    if not name or known or name.start() == 0:
        return body + ("*" if array else ""), ""
    return body[: name.start()].strip() + ("*" if array else ""), name[1]


def _plain(text: str) -> str:
    text = " ".join(_NOISE.sub(" ", text).split())
    text = text.removeprefix("::")
    return _ALIASES.get(text, text)


@functools.cache
def _demangler() -> Any:
    """The demangler of the C++ runtime; None where there is no C++ runtime on this machine."""
    for library in ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib"):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    return None


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    return libc
