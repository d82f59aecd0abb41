"""What save writes and refuses, and what load finds: missing, changed, moved, newer, imported."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys

import operator_tasks as samples
import pytest

torch = pytest.importorskip("torch")

from warpsmith.errors import OperatorError, UsageError  # noqa: E402
from warpsmith.runtime.operator import load, save  # noqa: E402
from warpsmith.runtime.saved import seal_of  # noqa: E402
from warpsmith.spec import CaseTime, Outcome, Ratio, Timing  # noqa: E402

pytestmark = pytest.mark.plain


def saved_softmax(folder, name="softmax", **more):
    task = samples.task_of(samples.SOFTMAX, folder)
    return save(samples.record_of(samples.SOFTMAX, task, **more), task, folder / name)


def test_candidate_and_reference_are_unchanged(tmp_path):
    path = saved_softmax(tmp_path)
    assert (path / "kernel" / "candidate.py").read_text() == samples.SOFTMAX.candidate
    assert (path / "kernel" / "extra.cuh").read_text() == "// with it\n"
    assert (path / "reference.py").read_text() == samples.SOFTMAX.task
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")], "leftover"


def test_provenance_says_where_everything_came_from(tmp_path):
    case = CaseTime(
        "default seed=0", 10.0, 9.5, 11.0, 20, {"eager": 20.0}, {"eager": Ratio(2.0, 1.9, 2.1)}
    )
    timing = Timing(True, "virtual GPU, modelled for H100 SXM", (case,), "roofline model")
    task = samples.task_of(samples.SOFTMAX, tmp_path)
    record = samples.record_of(samples.SOFTMAX, task, timing=timing)
    path = save(record, task, tmp_path / "softmax", journal="run/journal.sqlite")
    found = json.loads((path / "provenance.json").read_text())
    assert found["task"]["id"] == task.id
    assert found["candidate"]["id"] == record.candidate.id
    assert found["run"]["number"] == 3
    assert found["run"]["journal"] == "run/journal.sqlite"
    assert found["verdict"]["cases"][0]["error"] == 0.25
    assert found["timing"]["modelled"] is True
    assert found["timing"]["cases"][0]["speedups"]["eager"]["value"] == 2.0
    assert (
        found["versions"]["torch"] == torch.__version__.partition("+")[0]
        or "+" in found["versions"]["torch"]
    )
    readme = (path / "README.md").read_text()
    assert "**modelled** on virtual GPU, modelled for H100 SXM" in readme
    assert "| --- | --- | --- | --- |\n| default seed=0 | 10 | 20 | 2× (1.9 … 2.1) |\n" in readme
    assert "0.25 of the tolerance" in readme


def test_only_right_records_of_the_task_are_saved(tmp_path):
    task = samples.task_of(samples.SOFTMAX, tmp_path)
    other = samples.task_of(samples.ARGMAX, tmp_path)
    wrong = samples.record_of(samples.SOFTMAX, task, Outcome.WRONG_VALUE)
    with pytest.raises(UsageError, match="has WRONG_VALUE; only a record that is RIGHT"):
        save(wrong, task, tmp_path / "a")
    with pytest.raises(UsageError, match="not of 'argmax_and_view'"):
        save(samples.record_of(samples.SOFTMAX, task), other, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_saving_the_same_again_refreshes(tmp_path):
    path = saved_softmax(tmp_path)
    (path / "README.md").unlink()
    assert saved_softmax(tmp_path) == path
    assert load(path).provenance["run"]["number"] == 3


def test_nothing_else_is_overwritten(tmp_path):
    path = saved_softmax(tmp_path)
    task = samples.task_of(samples.ARGMAX, tmp_path)
    record = samples.record_of(samples.ARGMAX, task)
    with pytest.raises(OperatorError, match="holds another operator, softmax_"):
        save(record, task, path)
    assert load(path).provenance["task"]["name"] == "softmax"
    save(record, task, path, overwrite=True)
    assert load(path).provenance["task"]["name"] == "argmax_and_view"
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(OperatorError, match="is not a saved operator; choose another"):
            save(record, task, home, overwrite=overwrite)
    assert (home / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py"])
def test_files_stay_in_the_folder(tmp_path, name):
    task = samples.task_of(samples.SOFTMAX, tmp_path)
    record = samples.record_of(samples.SOFTMAX, task)
    files = {**record.candidate.files, name: "x"}
    candidate = dataclasses.replace(record.candidate, files=files)
    with pytest.raises(OperatorError, match="expected a name below"):
        save(dataclasses.replace(record, candidate=candidate), task, tmp_path / "a" / "b")
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.parametrize("name", ["kernel/candidate.py", "reference.py", "__init__.py"])
def test_missing_and_changed_files_are_named(tmp_path, name):
    path = saved_softmax(tmp_path)
    text = (path / name).read_text()
    (path / name).write_text(text + "\n# faster\n")
    with pytest.raises(OperatorError, match=rf"{name} was changed after it was judged"):
        load(path)
    (path / name).unlink()
    with pytest.raises(OperatorError, match=rf"the file '{name}' is missing"):
        load(path)
    (path / name).write_text(text)
    load(path)


def change_provenance(path, reseal, **changes):
    file = path / "provenance.json"
    found = json.loads(file.read_text()) | changes
    if reseal:
        found["seal"] = seal_of(found)
    file.write_text(json.dumps(found))


def test_an_edited_number_is_noticed(tmp_path):
    path = saved_softmax(tmp_path)
    change_provenance(path, False, timing={"modelled": False})
    with pytest.raises(OperatorError, match=r"provenance\.json was changed"):
        load(path)


def test_newer_formats_are_refused(tmp_path):
    path = saved_softmax(tmp_path)
    change_provenance(path, True, format=99, versions={"warpsmith": "9.0"})
    with pytest.raises(OperatorError, match=r"format 99, written by warpsmith 9\.0.*pip install"):
        load(path)


def test_what_is_no_operator(tmp_path):
    with pytest.raises(OperatorError, match="does not exist; expected a folder written by"):
        load(tmp_path / "nothing")
    with pytest.raises(OperatorError, match=r"has no provenance\.json"):
        load(tmp_path)
    (tmp_path / "provenance.json").write_text("{")
    with pytest.raises(OperatorError, match="cannot be read"):
        load(tmp_path)


def test_loading_twice_and_after_a_move(tmp_path):
    path, x = saved_softmax(tmp_path), torch.randn(5, 7)
    first, second = load(path, cpu="virtual"), load(path)
    assert first.torch_op is second.torch_op
    moved = tmp_path / "elsewhere" / "softmax"
    moved.parent.mkdir()
    shutil.move(path, moved)
    third = load(moved)
    for operator in (first, second, third):
        torch.testing.assert_close(operator(x), torch.softmax(x, -1))
    assert third._body.folder == moved.resolve()


def test_two_verdicts_on_one_candidate_add_up(tmp_path):
    """One process may load the same winner from two runs that verified different sizes."""
    task = samples.task_of(samples.ARGMAX, tmp_path)
    paths = []
    for rows in (3, 11):
        sample = dataclasses.replace(samples.ARGMAX, cases=(f"rows={rows} seed=1",))
        paths.append(save(samples.record_of(sample, task), task, tmp_path / f"rows{rows}"))
    operators = [load(path, cpu="virtual") for path in paths]
    before = operators[0].fallbacks
    for operator in operators:
        for rows in (3, 8, 11):
            operator(torch.randn(rows, 16))
    assert operators[0].fallbacks == before


def test_different_references_under_one_name_clash(tmp_path):
    path = saved_softmax(tmp_path)
    load(path)
    other = dataclasses.replace(samples.SOFTMAX, task=samples.SOFTMAX.task + "\n# another\n")
    task = samples.task_of(other, tmp_path)
    clash = save(samples.record_of(other, task), task, tmp_path / "clash")
    with pytest.raises(OperatorError, match="both define warpsmith::softmax_"):
        load(clash)


def test_several_operators_live_in_one_process(tmp_path):
    operators = {}
    for sample in samples.SAMPLES:
        task = samples.task_of(sample, tmp_path)
        path = save(samples.record_of(sample, task), task, tmp_path / sample.name)
        operators[sample.name] = load(path)
    assert len({o.name for o in operators.values()}) == len(samples.SAMPLES)
    x = torch.randn(4, 5)
    torch.testing.assert_close(operators["softmax"](x), torch.softmax(x, -1))
    torch.testing.assert_close(operators["views"](x)[1], x.t().contiguous())


def test_it_is_an_importable_package_in_a_fresh_process(tmp_path):
    saved_softmax(tmp_path)
    code = (
        f"import sys, torch; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from softmax import op, Model, provenance\n"
        "x = torch.randn(3, 4)\n"
        "assert torch.equal(op(x), torch.softmax(x, -1))\n"
        "assert torch.equal(Model()(x), op(x))\n"
        "print(op, provenance['task']['name'], op.fallbacks)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["softmax", "0"]


def test_saving_leaves_the_random_state(tmp_path):
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    saved_softmax(tmp_path)
    assert torch.equal(torch.randn(3), expected)


BATCH_NORM = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        {mode}
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(8, 4)]
"""
NORM_CANDIDATE = """
import torch
def run(inputs, state):
    s = {n.split(".")[1]: t for n, t in state.items()}
    scale = torch.rsqrt(s["running_var"] + 1e-5) * s["weight"]
    return (inputs[0] - s["running_mean"]) * scale + s["bias"]
"""


def test_a_reference_that_writes_its_state_cannot_be_an_operator(tmp_path):
    sample = samples.Sample("norm", BATCH_NORM.format(mode="pass"), NORM_CANDIDATE, "")
    task = samples.task_of(sample, tmp_path)
    with pytest.raises(OperatorError, match=r"its own buffers in forward.*self\.eval\(\)"):
        save(samples.record_of(sample, task), task, tmp_path / "norm")


def test_a_reference_that_writes_its_input_cannot_be_an_operator(tmp_path):
    text = samples.SOFTMAX.task.replace("torch.softmax(x, dim=-1)", "x.mul_(2)")
    sample = dataclasses.replace(samples.SOFTMAX, task=text)
    task = samples.task_of(sample, tmp_path)
    with pytest.raises(OperatorError, match="writes its inputs"):
        save(samples.record_of(sample, task), task, tmp_path / "a")


def test_the_mode_that_was_not_judged_comes_from_the_reference(tmp_path):
    sample = samples.Sample("norm", BATCH_NORM.format(mode="self.eval()"), NORM_CANDIDATE, "")
    task = samples.task_of(sample, tmp_path)
    operator = load(save(samples.record_of(sample, task), task, tmp_path / "norm"), cpu="virtual")
    model, reference, x = operator.Model(), task.model(), torch.randn(8, 4)
    assert not model.training
    torch.testing.assert_close(model(x), reference(x))
    torch.testing.assert_close(model.train()(x), reference.train()(x))
    torch.testing.assert_close(model.norm.running_mean, reference.norm.running_mean)
    torch.testing.assert_close(model.eval()(x), reference.eval()(x))
