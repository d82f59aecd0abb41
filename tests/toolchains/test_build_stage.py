"""The build stage: a record gets its build facts, or a verdict with file and line."""
# SPDX-License-Identifier: Apache-2.0

import pytest

from warpsmith import toolchains
from warpsmith.errors import CompileError, MissingTool
from warpsmith.spec import Candidate, Outcome, Record
from warpsmith.targets import get
from warpsmith.toolchains import nvrtc, ptxas
from warpsmith.toolchains.plan import plan

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.plain

SCALE = "__global__ void scale(float* x, float s) {\n  x[threadIdx.x] *= s * FACTOR;\n}\n"
FINE = SCALE.replace(" * FACTOR", "")


class Machine:
    name, target, modelled = "virtual", get("a100"), True


def built(**files):
    files = {name.replace("__", "."): text for name, text in files.items()}
    candidate = Candidate("c", "cuda", {"candidate.py": "def run(inputs, state): ...\n"} | files)
    record = Record("t", "task", candidate, "virtual", "a100")
    return toolchains.build(None, record, Machine)


def test_a_good_candidate_gets_facts_and_no_verdict():
    record = built(scale__cu=FINE)
    assert record.verdict is None
    (kernel,) = record.built.kernels
    assert (kernel["name"], kernel["arch"], kernel["spill_bytes"]) == ("scale", "sm_80", 0)
    assert kernel["registers"] > 0
    assert record.built.seconds > 0


def test_an_error_becomes_a_verdict():
    record = built(scale__cu=SCALE)
    assert record.failed
    assert record.verdict.outcome is Outcome.COMPILE_FAILED
    assert record.verdict.source == "scale.cu:2"
    assert "FACTOR" in record.verdict.message
    assert "scale.cu:2: error" in record.verdict.message
    assert "FACTOR" in record.built.log


def test_a_syntax_error_of_the_host_becomes_a_verdict():
    record = built(candidate__py="def run(inputs, state):\n  return (\n", scale__cu=FINE)
    assert record.verdict.outcome is Outcome.COMPILE_FAILED
    assert record.verdict.source == "candidate.py:2"


CALLS = {
    "literal": 'k = ws.cuda("scale.cu", defines={"FACTOR": 2})',
    "keyword": 'k = ws.cuda(source="scale.cu", options=["-DFACTOR=2"])',
    "constant": 'NAME = "scale.cu"\nk = ws.cuda(NAME, "scale", defines={"FACTOR": 2})',
    "in a function": 'def make():\n  return cuda("scale.cu", defines={"FACTOR": 2})',
}


@pytest.mark.parametrize("call", CALLS)
def test_macros_come_from_the_calls(call):
    record = built(candidate__py=CALLS[call], scale__cu=SCALE)
    assert record.verdict is None
    assert record.built.kernels


def test_computed_macros_are_left_to_the_launch_and_noted():
    record = built(candidate__py='k = ws.cuda("scale.cu", defines=choose())', scale__cu=SCALE)
    assert record.verdict is None
    assert record.built.kernels == ()
    assert "scale.cu is compiled at its launch" in record.built.log


def test_a_source_inside_the_host_is_compiled_too():
    text = f'SOURCE = """\n{SCALE}"""\nk = ws.cuda(SOURCE)\n'
    assert built(candidate__py=text).verdict.source == "candidate.py:3"
    escaped = text.replace("FACTOR;", "FACTOR; // \\\\ ")
    assert built(candidate__py=escaped).verdict.source == "kernel.cu:3"


def test_headers_are_not_compiled_alone():
    record = built(
        main__cu='#include "part.cu"\n__global__ void f(float* x) { x[0] = part(); }',
        part__cu="__device__ float part() { return NEEDED; }",
        candidate__py='k = ws.cuda("main.cu", defines={"NEEDED": 3})',
    )
    assert record.verdict is None
    assert [k["name"] for k in record.built.kernels] == ["f"]


def test_instantiations_are_compiled():
    source = "template <class T> __global__ void f(T* x) {\n  x[0] = x[1].foo;\n}\n"
    assert built(f__cu=source).verdict is None  # nobody instantiates it
    record = built(f__cu=source, candidate__py='k = ws.cuda("f.cu", "f<float>")')
    assert record.verdict.source == "f.cu:2"


def test_one_compilation_for_the_kernels_of_a_file():
    text = '[ws.cuda("f.cu", n) for n in ("a", "b")]; ws.cuda("f.cu", "a"); ws.cuda("f.cu", "b")'
    jobs, _ = plan(Candidate("c", "cuda", {"candidate.py": text, "f.cu": "__global__ void a() {}"}))
    assert len(jobs) == 1


def test_a_missing_compiler_is_no_verdict(monkeypatch):
    def nothing():
        raise MissingTool("NVRTC", "no library", nvrtc.INSTALL)

    monkeypatch.setattr(nvrtc, "bindings", nothing)
    nvrtc.version.cache_clear()
    with pytest.raises(MissingTool, match="pip install"):
        built(new__cu="__global__ void never_seen_before() {}\n")
    found = {tool["name"]: tool for tool in toolchains.report()}
    assert found["nvrtc"]["found"] is False
    assert "pip install" in found["nvrtc"]["why"]
    monkeypatch.undo()
    nvrtc.version.cache_clear()


def test_the_report_names_every_tool():
    found = {tool["name"]: tool for tool in toolchains.report()}
    assert found["nvrtc"]["found"]
    assert found["nvrtc"]["version"].count(".") == 1
    assert "sm_90" in found["nvrtc"]["architectures"]
    assert {"triton", "ptxas", "nvcc", "cuda headers", "compile cache"} <= set(found)


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 f_0)
{
  .reg .b64 %rd<3>;
  .shared .align 4 .b8 tile[512];
  ld.param.u64 %rd1, [f_0];
  mov.u64 %rd2, tile;
  st.global.u64 [%rd1], %rd2;
  bar.sync 3;
  ret;
}
"""


@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas here")
def test_the_assembler_reports_resources():
    needs = ptxas.report(PTX, "sm_80")["f"]
    assert needs.registers > 0
    assert (needs.static_shared_bytes, needs.spill_bytes, needs.stack_bytes) == (512, 0, 0)
    assert needs.barriers == 4
    with pytest.raises(CompileError, match="ptxas"):
        ptxas.report(PTX.replace("bar.sync", "bar.sink"), "sm_80")


def test_without_an_assembler_resources_are_unknown(monkeypatch):
    monkeypatch.setattr(ptxas, "_found", lambda: ())
    assert ptxas.report(PTX, "sm_80") == {}


def test_an_assembler_that_is_too_old_is_not_asked(monkeypatch):
    monkeypatch.setattr(ptxas, "_found", lambda: ("/old/ptxas", "/new/ptxas"))
    monkeypatch.setattr(ptxas, "version", lambda path: "12.8" if "old" in path else "13.0")
    assert ptxas.find(".version 9.0\n") == "/new/ptxas"
    assert ptxas.find(".version 8.7\n") == "/old/ptxas"
    assert ptxas.find(".version 9.9\n") is None
