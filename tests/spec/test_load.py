"""Tasks and candidates are read from the files people write, and refused with the reason."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from warpsmith.errors import CandidateError, TaskError
from warpsmith.spec import Case, Range, Tolerance, load_candidate, load_task
from warpsmith.spec.load import kernel_names

pytestmark = pytest.mark.plain

KERNELBENCH = """
class Model:
    def __init__(self, scale): self.scale = scale
    def __call__(self, x): return x * self.scale
def get_inputs(): return [3]
def get_init_inputs(): return [2]
"""


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_kernelbench_form(tmp_path):
    task = load_task(write(tmp_path, "19_Scale.py", KERNELBENCH))
    assert task.name == "19_Scale"
    assert task.model(*task.get_init_inputs())(*task.get_inputs()) == 6
    assert task.ranges == {}
    assert task.tolerance is None


def test_richer_form(tmp_path):
    text = KERNELBENCH + (
        "RANGES = {'rows': (0, 64, 2)}\nCASES = [{'rows': 8}]\n"
        "TOLERANCE = {'rtol': 1e-3}\nBACKWARD = True\n"
    )
    task = load_task(write(tmp_path, "scale.py", text))
    assert task.ranges == {"rows": Range(0, 64, 2)}
    assert task.cases == (Case({"rows": 8}),)
    assert task.tolerance == Tolerance(rtol=1e-3)
    assert task.backward


def test_a_task_object_in_the_file(tmp_path):
    text = (
        KERNELBENCH
        + "import warpsmith as ws\ntask = ws.Task('mine', Model, get_inputs, get_init_inputs)\n"
    )
    task = load_task(write(tmp_path, "file.py", text))
    assert task.name == "mine"
    assert task.source == text


def test_task_py_is_named_after_its_folder(tmp_path):
    folder = tmp_path / "softmax"
    folder.mkdir()
    assert load_task(write(folder, "task.py", KERNELBENCH)).name == "softmax"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "defines no 'Model'"),
        ("class Model: pass", "defines no 'get_inputs'"),
        ("def f(:\n", r"bad\.py:1"),
        (KERNELBENCH + "TOLERANCE = {'rt': 1}", "expected a dict with rtol, atol or exact"),
        (KERNELBENCH + "TOLERANCE = {'rtol': -1}", "expected 0 <= rtol"),
        (KERNELBENCH + "RANGES = {'n': (5, 2)}", "low <= high"),
        (KERNELBENCH + "RANGES = {'n': (1, 9)}\nCASES = [{'n': 12}]", "outside"),
    ],
)
def test_a_bad_task_says_what_is_missing(tmp_path, text, says):
    with pytest.raises(TaskError, match=says):
        load_task(write(tmp_path, "bad.py", text))


def test_a_missing_task_file(tmp_path):
    with pytest.raises(TaskError, match="no task file"):
        load_task(tmp_path / "nothing.py")


CUDA = """// two names in a comment: __global__ void not_me()
/* host.py
def run(inputs, state):
    return kernel
*/
__global__ void __launch_bounds__(256) scale(float *x, int n) {}
"""


def test_a_cuda_file_carries_its_host_side(tmp_path):
    candidate = load_candidate(write(tmp_path, "scale.cu", CUDA))
    assert candidate.language == "cuda"
    assert set(candidate.files) == {"candidate.py", "scale.cu"}
    lines = candidate.entry.splitlines()
    assert lines[2] == "def run(inputs, state):", "host lines keep their place in the .cu file"


def test_a_cuda_file_without_host_side(tmp_path):
    with pytest.raises(CandidateError, match=r"host\.py"):
        load_candidate(write(tmp_path, "bare.cu", "__global__ void f() {}"))


def test_python_takes_its_kernel_files_along(tmp_path):
    write(tmp_path, "k.cu", '#include "h.cuh"\n')
    write(tmp_path, "other.cu", "")
    path = write(tmp_path, "mine.py", "import warpsmith as ws\nk = ws.cuda('k.cu')\n")
    candidate = load_candidate(path)
    assert set(candidate.files) == {"candidate.py", "k.cu"}
    assert candidate.language == "cuda"


def test_headers_of_kernel_files_come_along(tmp_path):
    write(tmp_path, "h.cuh", "#define N 4\n")
    write(tmp_path, "k.cu", '#include "h.cuh"\n')
    path = write(tmp_path, "mine.py", "k = ws.cuda('k.cu')\n")
    assert set(load_candidate(path).files) == {"candidate.py", "k.cu", "h.cuh"}


def test_a_folder_is_a_candidate(tmp_path):
    write(tmp_path, "candidate.py", "import triton\n")
    assert load_candidate(tmp_path).language == "triton"


def test_a_folder_without_entry(tmp_path):
    write(tmp_path, "kernel.py", "")
    with pytest.raises(CandidateError, match=r"candidate\.py"):
        load_candidate(tmp_path)


def test_kernel_names_sees_templates_and_bounds():
    text = "template <int N> __global__ void a(int x) {}\n__global__ __launch_bounds__(32, 2) void b(){}"
    assert kernel_names(text) == ["a", "b"]
