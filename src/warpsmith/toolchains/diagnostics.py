"""Read a compiler's log into diagnostics at the user's own file and line."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import Diagnostic

ROOT = "/warpsmith/"  # sources are compiled under names in this folder, which does not exist

_FRONT_END = re.compile(
    r"^(?P<file>[^\s(][^(\n]*?)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|warning|note)"
    r"(?: #[\w-]+)?: (?P<text>.*)$"
)
_AT_END = re.compile(r"^At end of source: (?P<kind>error|warning)(?: #[\w-]+)?: (?P<text>.*)$")
_INSTANCE = re.compile(
    r"^\s+(?:detected during:?\s+)?(instantiation of .*) at line (\d+)(?: of (\S+))?"
)
_ASSEMBLER = re.compile(
    r"^ptxas .*?(?:, line (?P<line>\d+))?; (?P<kind>error|warning)\s*: (?P<text>.*)$"
)
_FATAL = re.compile(r"^ptxas (?:fatal|error)\s*: (?P<text>.*)$")
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"([^\"]+)\"", re.MULTILINE)

_CASCADE = re.compile(r"attribute .* does not apply here|incomplete type")
_LIBRARY = re.compile(
    r"\s*#\s*include\s*[<\"](cub/cub\.cuh|cub/device/[^>\"]+|thrust/[^>\"]+)[>\"]"
)
_INSTEAD = {
    "cub": "Include the parts that kernels use: cub/block/block_reduce.cuh, cub/warp/warp_scan.cuh, …",
    "thrust": "Write the loop in the kernel, or call PyTorch from Python",
}

# what the front end says: what to do about it
_HINTS = (
    (
        re.compile(r"kernel launch|host function.* not allowed in JIT|__host__ function is not"),
        "only device code is compiled here: move host code to Python, "
        "or keep it out with '#ifndef __CUDACC_RTC__ … #endif'",
    ),
    (
        re.compile(r'namespace "std" has no member "(vector|string|cout|cerr|map|unique_ptr)"'),
        "it is of the host: move host code to Python",
    ),
    (
        re.compile(r'source file "(torch|ATen|c10|pybind11)'),
        "host code with PyTorch belongs in Python: launch the kernel with ws.cuda(...)[grid, block](...)",
    ),
    (re.compile(r'source file "curand'), "pip install nvidia-curand, which has cuRAND's headers"),
    (
        re.compile(r'source file "(cute|cutlass)/'),
        "pip install --no-deps nvidia-cutlass, and pass its include folder: options=['-I…']",
    ),
    (
        re.compile(r'source file "[^"]+\.(cuh|hpp|h)"'),
        "put the header beside the source, or pass its folder: options=['-I<folder>']",
    ),
)


def read_log(log: str, ptx: str = "") -> list[Diagnostic]:
    """Errors and warnings of NVRTC or ptxas, in order.

    A message inside a template carries the line that instantiated it. `ptx` is what the assembler
    was given: it turns a PTX line into the source line of the nearest `.loc` above it.
    """
    found: list[Diagnostic] = []
    last_line = 0
    for line in log.splitlines():
        if match := _FRONT_END.match(line):
            if match["kind"] == "note":
                last_line = int(match["line"])
                found = _finish_end_of_source(found, match["file"], last_line)
                continue
            found.append(_front_end(match))
        elif match := _AT_END.match(line):
            found.append(Diagnostic(match["kind"], match["text"]))
        elif (match := _INSTANCE.match(line)) and found:
            found[-1] = _in_instance(found[-1], match)
        elif match := _ASSEMBLER.match(line):
            found.append(_assembler(match, ptx))
        elif (match := _FATAL.match(line)) and not found:
            found.append(Diagnostic("error", f"ptxas: {match['text']}"))
    return _cause_first(found)


def at_own_include(found: list[Diagnostic], text: str, name: str) -> list[Diagnostic]:
    """Errors inside a library that is no device code, told at the line that includes it."""
    for number, line in enumerate(text.splitlines(), 1):
        include = _LIBRARY.match(line)
        if include and any(d.file.startswith("cccl/") for d in found):
            advice = "it holds host code. " + _INSTEAD[include[1].partition("/")[0]]
            return [Diagnostic("error", f"<{include[1]}> does not compile: {advice}", name, number)]
    return found


def source_line(ptx: str, line: int) -> tuple[str, int]:
    """File and line of the source that PTX line `line`, from 1, was made of; ("", 0) if unknown.

    In inlined code it is the line of the kernel's own call.
    """
    files = {int(number): name for number, name in _FILE.findall(ptx)}
    for text in reversed(ptx.splitlines()[: max(line, 0)]):
        if text.startswith("{") or ".entry" in text or ".func" in text:
            break
        if match := _LOC.match(text):
            number, at, outer_file, outer = match.groups()
            if outer:
                number, at = outer_file, outer
            return own_name(files.get(int(number), "")), int(at)
    return "", 0


def own_name(file: str) -> str:
    """The name the user knows: without the folder that sources are compiled in.

    >>> own_name("/warpsmith/softmax.cu")
    'softmax.cu'
    """
    if file.startswith(ROOT):
        return file.removeprefix(ROOT)
    return file.rsplit("/include/", 1)[-1]


def tidy(log: str) -> str:
    """The log with the names that the user knows."""
    return log.replace(ROOT, "")


def _front_end(match: re.Match[str]) -> Diagnostic:
    kind = "warning" if match["kind"] == "warning" else "error"
    text = match["text"]
    hint = next((hint for pattern, hint in _HINTS if pattern.search(text)), "")
    message = f"{text} ({hint})" if hint else text
    return Diagnostic(kind, message, own_name(match["file"]), int(match["line"]))


def _finish_end_of_source(found: list[Diagnostic], file: str, line: int) -> list[Diagnostic]:
    """An error at the end of the source has no line; the note that follows it has: the open brace's."""
    if not found or found[-1].file:
        return found
    last = found[-1]
    return [
        *found[:-1],
        Diagnostic(last.severity, f"{last.message} (opened here)", own_name(file), line),
    ]


def _in_instance(diagnostic: Diagnostic, match: re.Match[str]) -> Diagnostic:
    what, line, file = match.groups()
    where = f"{own_name(file.strip(chr(34)))}:{line}" if file else f"line {line}"
    return Diagnostic(
        diagnostic.severity,
        f"{diagnostic.message}; in {what}, from {where}",
        diagnostic.file,
        diagnostic.line,
    )


def _assembler(match: re.Match[str], ptx: str) -> Diagnostic:
    line = int(match["line"] or 0)
    file, at = source_line(ptx, line) if line else ("", 0)
    instruction = ptx.splitlines()[line - 1].strip() if line and ptx else ""
    text = f"ptxas: {match['text']}" + (f", in '{instruction}'" if instruction else "")
    return Diagnostic(match["kind"], text, file, at)


def _cause_first(found: list[Diagnostic]) -> list[Diagnostic]:
    """An undefined type makes errors before its own, on the same line: the cause goes first."""
    if not found or not _CASCADE.match(found[0].message):
        return found
    first = (found[0].file, found[0].line)
    cause = next((d for d in found if (d.file, d.line) == first and "undefined" in d.message), None)
    return found if cause is None else [cause, *(d for d in found if d is not cause)]


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity == "error"]


_GCC = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|warning): (?P<text>.*)$"
)


def of_gcc(log: str) -> list[Diagnostic]:
    """The messages of GCC and Clang, in order.

    >>> of_gcc("net.hpp:3:7: error: expected ';'")[0].line
    3
    """
    found = []
    for line in log.splitlines():
        if match := _GCC.match(line):
            kind = "warning" if match["kind"] == "warning" else "error"
            column = int(match["column"] or 0)
            found.append(Diagnostic(kind, match["text"], match["file"], int(match["line"]), column))
    return found
