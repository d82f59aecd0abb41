"""Every example loads, compiles, and is judged as its README says."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from warpsmith.spec import Record, load_candidate, load_task  # noqa: E402

ROOT = Path(__file__).parents[2] / "examples"
TASKS = sorted([*ROOT.glob("*/task.py"), ROOT / "kernelbench_form" / "residual_tanh.py"])
CUDA_FILES = sorted(ROOT.glob("*/*.cu"))

# kernel -> the sizes it is judged at here: its main case is made for a GPU
SMALL = {
    "softmax/softmax.cu": {"rows": 40, "cols": 300},
    "softmax/softmax_triton.py": {"rows": 40, "cols": 300},
    "bias_gelu/bias_gelu.cu": {"rows": 64, "cols": 64},
    "layer_norm/layer_norm.cu": {"rows": 9},
    "layer_norm/layer_norm_triton.py": {"rows": 9},
    "matmul_bias_relu/matmul_bias_relu.cu": {"rows": 65},
    "reduction/reduction.cu": {"rows": 100, "cols": 300},
    "my_triton/swiglu_triton.py": {"rows": 20, "cols": 700},
    "racy/row_sum_fixed.cu": {"rows": 20, "cols": 300},
    "out_of_bounds/scale_fixed.cu": {"count": 4000},
}
WRONG = {
    "racy/row_sum.cu": {"rows": 20, "cols": 300},
    "out_of_bounds/scale.cu": {"count": 4000},
}
# (kernel, function) -> sizes: rungs that a candidate does not show, and its ways for other sizes
WAYS = {
    ("softmax/softmax.cu", "run"): {"rows": 3, "cols": 4097},
    ("softmax/softmax_triton.py", "run"): {"rows": 2, "cols": 4097},
    ("bias_gelu/bias_gelu.cu", "run"): {"rows": 5, "cols": 33},
    ("softmax/softmax.cu", "rung_1"): {"rows": 40, "cols": 300},
    ("layer_norm/layer_norm.cu", "rung_1"): {"rows": 9},
    ("matmul_bias_relu/matmul_bias_relu.cu", "rung_1"): {"rows": 65},
}


def name(path):
    return str(path.relative_to(ROOT)) if isinstance(path, Path) else str(path)


def task_of(kernel: str, small=None):
    """The task beside a kernel, with its main case and no other at smaller sizes where given."""
    task = load_task(ROOT / kernel.partition("/")[0] / "task.py")
    if small is None:
        return task
    return dataclasses.replace(
        task, get_inputs=functools.partial(task.get_inputs, **small), cases=()
    )


@pytest.fixture(scope="module")
def device():
    from warpsmith.devices import open_device

    opened = open_device("virtual", "h100")
    yield opened
    opened.close()


def verdict_of(device, task, kernel: str, hidden=3):
    from warpsmith.verify import verify

    record = Record(task.id, task.name, load_candidate(ROOT / kernel), "virtual", "h100")
    return verify(task, record, device, hidden=hidden, seed=1).verdict


@pytest.mark.plain
@pytest.mark.parametrize("path", TASKS, ids=name)
def test_references_run_on_every_declared_case(path):
    task = load_task(path)
    model = task.model(*task.get_init_inputs())
    for case in (task.main, *task.cases):
        outputs = model(*task.get_inputs(**case.dims))
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            assert torch.isfinite(output).all()


@pytest.mark.plain
@pytest.mark.parametrize("path", CUDA_FILES, ids=name)
@pytest.mark.parametrize("target", ["a100", "h100"])
def test_cuda_files_compile_without_spills(path, target):
    from warpsmith import targets
    from warpsmith.toolchains.cuda import compile_source

    text = path.read_text()
    found = compile_source(text, targets.get(target), name=path.name, folder=path.parent)
    assert {a.kernel for a in found}
    assert all(not a.resources.spill_bytes for a in found)


@pytest.mark.plain
@pytest.mark.parametrize("path", [*CUDA_FILES, *sorted(ROOT.glob("*/*_triton.py"))], ids=name)
def test_headers_name_the_reference_and_the_command(path):
    header = path.read_text()[:1200]
    folder = path.parent.name
    assert "reference: " in header
    assert f"run: warpsmith check examples/{folder}/" in header
    command = header.partition("run: warpsmith check ")[2].split("\n")[0].split()
    assert all((ROOT.parent / part).is_file() for part in command)


@pytest.mark.plain
def test_every_kernel_is_judged_here():
    judged = {*SMALL, *WRONG, "kernelbench_form/residual_tanh.cu"}
    assert {name(p) for p in [*CUDA_FILES, *ROOT.glob("*/*_triton.py")]} == judged


@pytest.mark.plain
def test_the_table_names_every_folder():
    text = (ROOT / "README.md").read_text()
    for folder in (p for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith("_")):
        assert f"[{folder.name}]({folder.name})" in text


@pytest.mark.virtual
@pytest.mark.parametrize("kernel", SMALL)
def test_right_kernels_are_right(kernel, device):
    verdict = verdict_of(device, task_of(kernel, SMALL[kernel]), kernel)
    assert verdict.right, verdict.message


@pytest.mark.virtual
@pytest.mark.parametrize("kernel", WRONG)
def test_wrong_kernels_are_found_and_the_fixed_ones_differ_in_a_line(kernel, device):
    verdict = verdict_of(device, task_of(kernel, WRONG[kernel]), kernel)
    assert not verdict.right
    if kernel.startswith("out_of_bounds"):
        assert "past its end" in verdict.message
        assert verdict.source == "scale.cu:16"
    path = ROOT / kernel
    wrong, fixed = (
        p.read_text().splitlines() for p in (path, path.with_stem(path.stem + "_fixed"))
    )
    code = [(a, b) for a, b in zip(wrong, fixed) if a != b and not a.startswith("//")]
    assert len(wrong) == len(fixed)
    assert len(code) == 1


@pytest.mark.virtual
@pytest.mark.parametrize(("kernel", "function"), WAYS)
def test_other_ways_are_right(kernel, function, tmp_path):
    from warpsmith.devices import host

    small = WAYS[kernel, function]
    task = task_of(kernel, small)
    model, inputs = task.model(*task.get_init_inputs()), task.get_inputs()
    names = host.load(load_candidate(ROOT / kernel), tmp_path).names
    state = {n: t.detach() for n, t in model.named_parameters()}
    torch.testing.assert_close(
        names[function](inputs, state), model(*inputs).detach(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.virtual
def test_kernelbench_form(device):
    path = ROOT / "kernelbench_form" / "residual_tanh.py"
    assert "warpsmith" not in path.read_text()
    task = dataclasses.replace(
        load_task(path), get_inputs=lambda: [torch.rand(8, 64)], get_init_inputs=lambda: [64]
    )
    verdict = verdict_of(device, task, "kernelbench_form/model_new.py", hidden=1)
    assert verdict.right, verdict.message


@pytest.mark.virtual
@pytest.mark.slow
def test_the_python_example_runs():
    done = subprocess.run(
        [sys.executable, str(ROOT / "python_api.py")], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    for line in ("saxpy is right: True", "OUT_OF_BOUNDS at scale.cu:16", "gradient is right: True"):
        assert line in done.stdout
