"""Hold the floors of the house: arrows point down, and only the named ones run between verbs."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import warpsmith

pytestmark = pytest.mark.plain
SRC = Path(warpsmith.__file__).parent

FLOOR = {
    "errors": 1,
    **dict.fromkeys(("spec", "vgpu"), 2),
    **dict.fromkeys(
        [
            "targets",
            "toolchains",
            "devices",
            "verify",
            "measure",
            "analyze",
            "codegen",
            "search",
            "suites",
            "report",
        ],
        3,
    ),
    **dict.fromkeys(("loop", "propose", "runtime"), 4),
    **dict.fromkeys(("__init__", "workshop", "emission", "profiling", "sanitizer", "learn"), 5),
    **dict.fromkeys(("cli", "mcp", "pytest_plugin"), 6),
}
# Rooms of one floor that may know each other, each for a reason given in ARCHITECTURE.md.
BESIDE = {
    ("workshop", "__init__"),
    ("__init__", "workshop"),
    ("__init__", "sanitizer"),
    ("__init__", "emission"),
    ("emission", "__init__"),
    ("__init__", "profiling"),
    *((room, "targets") for room in FLOOR if FLOOR[room] == 3),
}
# Downward arrows between verbs: these and no others.
VERBS = {
    "devices": {"vgpu"},
    "propose": {"codegen", "search"},
    "runtime": {"toolchains", "devices", "targets"},
    "loop": {"toolchains", "verify", "measure", "analyze"},
    "vgpu": set(),
}


def imports_of(path: Path) -> set[str]:
    """Rooms that a file imports, inside functions too."""
    package = ("warpsmith", *path.relative_to(SRC).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, node.module or "")).strip(".")
            names = [stem] if stem != "warpsmith" else [f"{stem}.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "warpsmith":
                room = parts[1] if len(parts) > 1 else "__init__"
                is_room = (SRC / room).is_dir() or (SRC / f"{room}.py").is_file()
                found.add(room if is_room else "__init__")
    return found


FILES = sorted(p for p in SRC.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_arrows_point_down(path: Path):
    room = path.relative_to(SRC).parts[0].removesuffix(".py")
    assert room in FLOOR, f"{path} is in a room that ARCHITECTURE.md does not have"
    for other in imports_of(path) - {room}:
        assert other in FLOOR, f"{path} imports {other}, which is no room"
        if FLOOR[other] < FLOOR[room]:
            verbs = VERBS.get(room)
            nouns = {"errors", "spec", "targets"} if room != "vgpu" else {"errors"}
            assert verbs is None or other in verbs | nouns, f"{room} may not know {other}: {path}"
        else:
            assert (room, other) in BESIDE, f"{path}: {room} may not import {other}"


def test_floor_three_rooms_know_only_nouns():
    """Rooms of floor 3 import nouns; devices alone also knows the virtual GPU."""
    for path in FILES:
        room = path.relative_to(SRC).parts[0].removesuffix(".py")
        if FLOOR[room] == 3 and room != "devices":
            assert "vgpu" not in imports_of(path), f"{path} imports vgpu"


def test_import_loads_nothing_heavy():
    code = (
        "import sys, warpsmith; "
        "print([m for m in ('torch', 'triton', 'rich', 'cuda', 'numpy', 'click') if m in sys.modules])"
    )
    heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.stdout.strip() == "[]"


def test_the_face_is_whole():
    """Every name of __all__ exists, and nothing else is public."""
    for name in warpsmith.__all__:
        assert getattr(warpsmith, name) is not None
