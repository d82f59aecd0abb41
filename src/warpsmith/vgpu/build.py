"""Compile the runtime once per machine and instruction handlers once per spelling; keep both.

The cache (`$WARPSMITH_CACHE`, else `~/.cache/warpsmith`, then `vgpu/<environment>`) is addressed by
content: the environment is a hash of the runtime's sources, the compiler, its flags and the CPU; a
handler is named by the hash of its C text. Libraries appear by atomic rename, so any number of
processes may share the cache without locks.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warpsmith.errors import MissingTool, ToolchainError

RUNTIME_SOURCES = Path(__file__).with_name("rt")
_COMMON = (
    "-std=gnu11", "-fPIC", "-w", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    "-fno-strict-aliasing", "-fwrapv", "-fvisibility=default",
)  # fmt: skip
_RUNTIME_FLAGS = (*_COMMON, "-O3")
_HANDLER_FLAGS = (*_COMMON, "-O1", "-ftree-vectorize")
_HEADERS = (".h",)  # all that compiled handlers depend on
_BATCH = 24  # handlers of one translation unit, at least


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command, what it says about itself, and its flags for this CPU."""

    command: tuple[str, ...]
    version: str
    tuning: tuple[str, ...]


@cache
def compiler() -> Compiler:
    """The C compiler: `$WARPSMITH_CC`, else cc, gcc, clang on PATH, else the ziglang wheel.

    Raises MissingTool when there is none.
    """
    if named := os.environ.get("WARPSMITH_CC"):
        return _probe(tuple(named.split()))
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return _probe((path,))
    if importlib.util.find_spec("ziglang"):
        return _probe((sys.executable, "-m", "ziglang", "cc"))
    raise MissingTool(
        "a C compiler", "the virtual GPU compiles instructions for this CPU, and neither cc, gcc, "
        "clang nor the ziglang wheel was found", "pip install 'warpsmith[cc]'",
    )  # fmt: skip


def _probe(command: tuple[str, ...]) -> Compiler:
    if sys.byteorder != "little":
        raise ToolchainError("the virtual GPU needs a little-endian machine")
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise MissingTool(command[0], str(error), "set WARPSMITH_CC to a C compiler") from None
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "probe.c"
        source.write_text("int x;\n")
        for tuning in (("-march=native",), ("-mcpu=native",)):
            tried = subprocess.run(
                [*command, *tuning, "-c", str(source), "-o", str(source.with_suffix(".o"))],
                capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            if tried.returncode == 0 and "warning" not in tried.stderr:
                return Compiler(command, said.stdout, tuning)
    return Compiler(command, said.stdout, ())


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    keep = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(keep)}))


def cache_root() -> Path:
    """The folder of everything the virtual GPU keeps on disk."""
    root = os.environ.get("WARPSMITH_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "warpsmith") / "vgpu"


@cache
def sources_hash() -> str:
    """Hash of the virtual GPU's own sources: what translated programs depend on."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".c", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


@cache
def environment(suffixes: tuple[str, ...] = (".c", ".h")) -> Path:
    """The cache folder of this combination of compiler, CPU and runtime sources of `suffixes`."""
    cc = compiler()
    parts = [str(cc.command), cc.version, str(cc.tuning), str(_RUNTIME_FLAGS), str(_HANDLER_FLAGS)]
    digest = hashlib.sha256("\n".join([*parts, _cpu(), sys.platform]).encode())
    for path in sorted(RUNTIME_SOURCES.iterdir()):
        if path.suffix in suffixes:
            digest.update(path.read_bytes())
    folder = cache_root() / digest.hexdigest()[:24]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_all(commands: list[list[str]]) -> None:
    """Run compiler commands, as many at once as there are CPUs; raises ToolchainError."""
    waiting = list(reversed(commands))
    running: list[subprocess.Popen] = []
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            running.append(
                subprocess.Popen(waiting.pop(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            )
        process = running.pop(0)
        message = process.communicate()[1].decode(errors="replace")
        if process.returncode:
            for other in running:
                other.communicate()
            raise ToolchainError(f"the C compiler failed:\n{message.strip()[-3000:]}")


def _linker_flags() -> list[str]:
    return ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []


@cache
def runtime() -> ctypes.CDLL:
    """The runtime library, compiled when this machine has none yet."""
    library = environment() / "runtime.so"
    if not library.exists():
        cc = compiler()
        with tempfile.TemporaryDirectory(dir=environment()) as scratch:
            sources = sorted(RUNTIME_SOURCES.glob("*.c"))
            objects = [Path(scratch) / (s.stem + ".o") for s in sources]
            base = [*cc.command, *_RUNTIME_FLAGS, *cc.tuning]
            run_all([[*base, "-c", str(s), "-o", str(o)] for s, o in zip(sources, objects)])
            made = Path(scratch) / "runtime.so"
            link = [*base, "-shared", "-o", str(made), *map(str, objects), "-lm", "-lpthread"]
            run_all([link])
            os.replace(made, library)
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class HandlerLibrary:
    """Addresses of handlers: found in the runtime, in the cache, or compiled now."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}
        self._index: dict[str, Path] = {}  # symbol -> library on disk
        self._read: set[str] = set()
        self._lock = threading.Lock()
        self.compiled = 0  # handlers compiled by this process

    def resolve(self, texts: dict[str, str], runtime_symbols: Iterable[str]) -> dict[str, int]:
        """The address of every handler of `texts` (symbol -> C text) and runtime symbol."""
        with self._lock:
            library = runtime()
            for symbol in runtime_symbols:
                if symbol not in self._addresses:
                    self._addresses[symbol] = _address(library, symbol)
            missing = [s for s in texts if s not in self._addresses]
            if missing:
                self._read_index()
                self._compile({s: texts[s] for s in missing if s not in self._index})
                for symbol in missing:
                    if symbol not in self._addresses:
                        self._load(self._index[symbol])
            return {s: self._addresses[s] for s in (*texts, *runtime_symbols)}

    def _read_index(self) -> None:
        folder = environment(_HEADERS) / "handlers"
        folder.mkdir(exist_ok=True)
        for entry in os.scandir(folder):
            if entry.name.endswith(".keys") and entry.name not in self._read:
                self._read.add(entry.name)
                path = Path(entry.path)
                for symbol in path.read_text().split():
                    self._index.setdefault(symbol, path.with_suffix(".so"))

    def _compile(self, texts: dict[str, str]) -> None:
        if not texts:
            return
        symbols = sorted(texts)
        parts = max(1, min(os.cpu_count() or 1, len(symbols) // _BATCH))
        batches = [symbols[i::parts] for i in range(parts)]
        folder = environment(_HEADERS) / "handlers"
        cc = compiler()
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            commands, made = [], []
            for batch in batches:
                name = hashlib.sha256("".join(batch).encode()).hexdigest()[:20]
                source, target = Path(scratch) / f"{name}.c", Path(scratch) / f"{name}.so"
                source.write_text(_PREAMBLE + "".join(texts[s].replace("NAME", s) for s in batch))
                commands.append([*cc.command, *_HANDLER_FLAGS, *cc.tuning, f"-I{RUNTIME_SOURCES}",
                                 "-shared", "-o", str(target), str(source), "-lm",
                                 *_linker_flags()])  # fmt: skip
                made.append((target, folder / target.name, batch))
            run_all(commands)
            for target, final, batch in made:
                os.replace(target, final)
                keys = Path(scratch) / "keys"
                keys.write_text("\n".join(batch))
                os.replace(keys, final.with_suffix(".keys"))
                self._index |= dict.fromkeys(batch, final)
        self.compiled += len(symbols)

    def _load(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        for symbol in (s for s, p in self._index.items() if p == path):
            self._addresses[symbol] = _address(library, symbol)


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


_PREAMBLE = """#include "vgpu.h"\n#include "lane.h"\n#if __has_include("collective.h")\n#include "collective.h"\n#endif\n"""

HANDLERS = HandlerLibrary()
"""This process's handlers."""
