"""The cache gives back what was stored, whoever else writes at the same time."""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import stat
import subprocess
import sys

import pytest

from warpsmith.spec import Artifact, Parameter, Resources
from warpsmith.targets import get
from warpsmith.toolchains import cache, cuda

pytestmark = pytest.mark.plain

ARTIFACT = Artifact(
    language="cuda",
    kernel="f",
    arch="sm_90a",
    ptx=".version 9.0\n",
    parameters=(Parameter("pointer", "x", "float", 8, True), Parameter("scalar", "n", "int", 4)),
    resources=Resources(registers=12, spill_bytes=0, stack_bytes=8, barriers=2),
    cubin=bytes(range(256)),
    source="__global__ void f() {} // π",
    cluster=(2, 1, 1),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def never():
    raise AssertionError("compiled again")


def test_an_artifact_comes_back_equal(folder):
    name = cache.key("test")
    assert cache.artifacts(name, lambda: [ARTIFACT]) == (ARTIFACT,)
    assert cache.artifacts(name, never) == (ARTIFACT,)
    assert [p.suffix for p in folder.rglob("*.*")] == [".json"]
    assert cache.clear() == 1
    assert cache.load(name) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[{}]", b"null", b"\xff\xfe", b'"text"', b"[3]"])
def test_a_damaged_entry_is_made_again(folder, damage):
    name = cache.key("test")
    cache.artifacts(name, lambda: [ARTIFACT])
    (entry,) = folder.rglob("*.json")
    entry.write_bytes(damage)
    assert cache.artifacts(name, lambda: [ARTIFACT]) == (ARTIFACT,)
    assert json.loads(entry.read_text())[0]["kernel"] == "f"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_refuses_costs_only_time(folder):
    folder.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    assert cache.artifacts(cache.key("test"), lambda: [ARTIFACT]) == (ARTIFACT,)


def test_a_folder_that_cannot_be_made_costs_only_time(folder):
    folder.write_text("a file is in the way")
    assert not cache.store(cache.key("test"), 1)
    assert cache.artifacts(cache.key("test"), lambda: [ARTIFACT]) == (ARTIFACT,)


SOURCE = '#include "t.cuh"\n__global__ void f(int* a) { *a = T + U; }'


def compiled(**changes):
    given = {"name": "f.cu", "headers": {"t.cuh": "#define T 1"}, "defines": {"U": 1}}
    given |= {"target": get("h100"), "text": SOURCE} | changes
    cuda._memory.clear()
    return cuda.compile_source(given.pop("text"), given.pop("target"), **given)


@pytest.mark.parametrize(
    "changes",
    [
        {"text": SOURCE + "\n"},
        {"headers": {"t.cuh": "#define T 2"}},
        {"defines": {"U": 2}},
        {"options": ["--use_fast_math"]},
        {"target": get("a100")},
        {"name": "g.cu"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_everything_that_goes_in_is_in_the_key(folder, changes):
    pytest.importorskip("cuda.bindings.nvrtc")
    compiled()
    compiled()
    before = len(list(folder.rglob("*.json")))
    compiled(**changes)
    assert (before, len(list(folder.rglob("*.json")))) == (1, 2)


def test_a_failed_compilation_leaves_nothing(folder):
    pytest.importorskip("cuda.bindings.nvrtc")
    with pytest.raises(cuda.CompileError):
        compiled(text="__global__ void f() { x }\n")
    assert not list(folder.rglob("*.json"))


WRITER = """
import sys
from warpsmith.toolchains import cache
seed = int(sys.argv[1])
for i in range(300):
    name = cache.key(str(i % 7))
    expected = {"key": i % 7, "text": str(i % 7) * 20_000}
    found = cache.load(name)
    assert found is None or found == expected, "half an entry was read"
    assert cache.store(name, expected)
"""

COMPILER = """
from warpsmith import targets
from warpsmith.toolchains import cuda
for n in range(3):
    source = f"__global__ void f(int* a) {{ *a = {n}; }}\\n"
    (artifact,) = cuda.compile_source(source, targets.get("h100"))
    print(artifact.id)
"""


@pytest.mark.parametrize("script", [WRITER, COMPILER], ids=["writes", "compiles"])
def test_four_processes_share_one_cache(folder, script):
    if script is COMPILER:
        pytest.importorskip("cuda.bindings.nvrtc")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    results = [worker.communicate(timeout=120) for worker in workers]
    assert [w.returncode for w in workers] == [0] * 4, results
    assert len({out for out, _ in results}) == 1
    assert len(list(folder.rglob("*.json"))) == (7 if script is WRITER else 3)
    assert not list(folder.rglob(".new-*"))
