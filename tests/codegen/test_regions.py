"""Every reference of the table is captured, cut as expected, compiles, and computes what torch does."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast

import pytest

torch = pytest.importorskip("torch")

from modules import TABLE, by_name  # noqa: E402
from nvrtc import compile_cuda  # noqa: E402
from running import assert_close, load, state_of  # noqa: E402

from warpsmith.codegen import regions  # noqa: E402
from warpsmith.spec import Task  # noqa: E402

NAMES = [row.name for row in TABLE]


@pytest.mark.plain
@pytest.mark.parametrize("name", NAMES)
def test_is_cut_into_the_expected_regions(name, tasks, template):
    plan = template.plan(tasks[name])
    assert isinstance(plan, regions.Plan), plan.why
    assert tuple(r.kind for r in plan.regions) == by_name(name).kinds
    assert bool(plan.unmatched) == (name == "convolution")


@pytest.mark.plain
@pytest.mark.parametrize("name", NAMES)
def test_every_rung_of_both_languages_is_well_formed(name, tasks, template):
    families = template.families(tasks[name])
    assert {f.language for f in families} == {"cuda", "triton"}
    assert families[0].rung == 1
    for family in families:
        candidate = template.build(tasks[name], family, family.default)
        ast.parse(candidate.entry)
        for file, text in candidate.files.items():
            assert max(map(len, text.splitlines())) < 200, file
        assert candidate.parameters["rung"] == family.rung


@pytest.mark.plain
@pytest.mark.parametrize("name", NAMES)
def test_the_highest_cuda_rung_compiles(name, tasks, template):
    pytest.importorskip("cuda.bindings.nvrtc")
    family = [f for f in template.families(tasks[name]) if f.language == "cuda"][-1]
    candidate = template.build(tasks[name], family, family.default)
    for file, text in candidate.files.items():
        if file.endswith(".cu"):
            assert ".entry" in compile_cuda(text)


@pytest.mark.plain
@pytest.mark.parametrize("name", ["softmax", "matmul", "bias_gelu", "half_matmul"])
def test_every_point_of_a_grid_has_files_of_its_own(name, tasks, template):
    family = [f for f in template.families(tasks[name]) if f.language == "cuda"][-1]
    points = list(regions.points(family))[:24]
    ids = {template.build(tasks[name], family, point).id for point in points}
    assert len(ids) == len(points)


def rungs():
    """Every CUDA rung and every Triton rung of the rows that show a kind best; else the last ones."""
    full = {"bias_gelu", "softmax", "layer_norm", "column_sum", "mse", "permute", "half_matmul"}
    for name in NAMES:
        yield pytest.param(name, "cuda", 0 if name in full else -1, id=f"{name}-cuda")
        if name in full or name in {
            "extremes",
            "cross_entropy",
            "attention",
            "spread",
            "logic",
            "triangle",
        }:
            yield pytest.param(name, "triton", 0 if name in full else -1, id=f"{name}-triton")


@pytest.mark.virtual
@pytest.mark.parametrize(("name", "language", "first"), list(rungs()))
def test_agrees_with_torch(name, language, first, tasks, template, tmp_path):
    row, task = by_name(name), tasks[name]
    model = row.reference()
    state = state_of(model)
    torch.manual_seed(1)
    cases = [row.inputs(), *row.more()]
    families = [f for f in template.families(task) if f.language == language][first:]
    for family in families:
        module = load(template.build(task, family, family.default), tmp_path)
        for inputs in cases:
            with torch.no_grad():
                want = model(*inputs)
            assert_close(module.run(list(inputs), state), want, inputs)


@pytest.mark.virtual
@pytest.mark.parametrize("name", ["softmax", "bias_gelu", "mse"])
def test_a_misaligned_tensor_takes_the_scalar_path(name, tasks, template, tmp_path):
    row, task = by_name(name), tasks[name]
    model = row.reference()
    family = next(
        f for f in template.families(task) if f.language == "cuda" and "16-byte" in f.title
    )
    module = load(template.build(task, family, family.default), tmp_path)
    shifted = []
    for tensor in row.inputs():
        room = torch.empty(tensor.numel() + 1)
        room[1:] = tensor.flatten()
        shifted.append(room[1:].view(tensor.shape))
    assert_close(module.run(shifted, state_of(model)), model(*shifted), shifted)


@pytest.mark.plain
def test_sizes_that_were_folded_in_are_checked(tasks, template, tmp_path):
    task = tasks["layer_norm"]
    family = template.families(task)[0]
    module = load(template.build(task, family, family.default), tmp_path)
    with pytest.raises(ValueError, match="this kernel was made for"):
        module.run([torch.randn(2, 3, 34)], state_of(by_name("layer_norm").reference()))


@pytest.mark.plain
def test_what_cannot_be_matched_is_named_with_its_line(template):
    class Scan(torch.nn.Module):
        def forward(self, x):
            return torch.cumsum(x, 0)

    task = Task("scan", Scan, lambda: [torch.randn(3, 4)])
    assert template.families(task) == []
    assert "aten.cumsum.default" in template.explain()
    assert "test_regions.py" in template.explain()


@pytest.mark.plain
def test_random_operations_are_refused(template):
    class Drop(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, True) + 1

    assert template.families(Task("drop", Drop, lambda: [torch.randn(3, 4)])) == []
    assert "random" in template.explain()


@pytest.mark.plain
def test_equal_example_sizes_stay_independent(template, tmp_path):
    task = Task("square", lambda: torch.relu, lambda: [torch.randn(8, 8)])
    family = template.families(task)[0]
    text = template.build(task, family, family.default).entry
    assert "x.shape" not in text or "raise" not in text


class Ranged(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x + y, dim=-1) * x.mean()


@pytest.mark.virtual
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_ranged_size_may_be_one_by_default(rows, template, tmp_path):
    def inputs(rows=1, cols=5):
        return [torch.randn(rows, cols), torch.randn(cols)]

    task = Task("ranged", Ranged, inputs, ranges={"rows": (1, 64), "cols": (2, 64)})
    family = template.families(task)[0]
    module = load(template.build(task, family, family.default), tmp_path)
    given = inputs(rows, 9)
    assert_close(module.run(given, {}), Ranged()(*given), given)


@pytest.mark.virtual
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("name", ["softmax", "matmul", "mse", "glu"])
def test_equal_inputs_give_equal_bits(name, language, tasks, template, tmp_path):
    row, task = by_name(name), tasks[name]
    family = [f for f in template.families(task) if f.language == language][-1]
    module = load(template.build(task, family, family.default), tmp_path)
    inputs = row.inputs()
    assert torch.equal(module.run(inputs, {}), module.run(inputs, {}))


@pytest.mark.gpu
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("name", NAMES)
def test_every_rung_agrees_with_torch_on_a_gpu(name, language, tasks, template, tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU")
    row, task = by_name(name), tasks[name]
    model = row.reference()
    state = {k: v.cuda() for k, v in state_of(model).items()}
    cases = [row.inputs(), *row.more()]
    for family in (f for f in template.families(task) if f.language == language):
        module = load(template.build(task, family, family.default), tmp_path)
        for inputs in cases:
            with torch.no_grad():
                want = model(*inputs)
            moved = [x.cuda() if isinstance(x, torch.Tensor) else x for x in inputs]
            got = module.run(moved, state)
            got = got if isinstance(got, tuple) else (got,)
            assert_close(tuple(g.cpu() for g in got), want, inputs)
