"""Rows kept in registers: every way through the kernel, every width, and data that is hard on sums."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from running import assert_close, load  # noqa: E402

from warpsmith.spec import Task  # noqa: E402

KEPT = ("the row kept in registers", "one warp keeps a row")


def softmax(x):
    return torch.softmax(x, -1)


def standardized(x):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def module_of(function, title, template, folder, inputs=lambda: [torch.randn(4, 256)], **point):
    task = Task(function.__name__, lambda: function, inputs)
    family = next(
        f for f in template.families(task) if f.language == "cuda" and f.title.startswith(title)
    )
    return load(template.build(task, family, {**family.default, **point}), folder)


@pytest.mark.virtual
@pytest.mark.parametrize("function", [softmax, standardized])
@pytest.mark.parametrize("title", KEPT)
def test_every_width_is_right(title, function, template, tmp_path):
    """Packs and single elements; rows that fill the registers, that do not, and that do not fit."""
    module = module_of(function, title, template, tmp_path)
    for rows, cols in [(0, 8), (9, 256), (3, 512), (2, 132), (5, 64), (3, 128), (2, 33), (2, 1028)]:
        x = torch.randn(rows, cols)
        assert_close(module.run([x], {}), function(x), [x])


@pytest.mark.virtual
@pytest.mark.parametrize("title", KEPT)
def test_a_misaligned_row_is_kept_element_by_element(title, template, tmp_path):
    module = module_of(standardized, title, template, tmp_path)
    for cols in (64, 128, 256):
        x = torch.randn(3 * cols + 1)[1:].view(3, cols)
        assert_close(module.run([x], {}), standardized(x), [x])


@pytest.mark.virtual
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("title", KEPT)
def test_every_dtype_is_right(title, dtype, template, tmp_path):
    def inputs():
        return [torch.randn(3, 256, dtype=dtype)]

    module = module_of(softmax, title, template, tmp_path, inputs)
    for cols in (256, 40, 7):
        x = torch.randn(3, cols, dtype=dtype)
        assert_close(module.run([x], {}), softmax(x), [x])


@pytest.mark.virtual
@pytest.mark.parametrize("title", ["one warp a row", "one block a row, 16-byte packs", *KEPT])
def test_hard_data_is_right(title, template, tmp_path):
    """A mean far from zero against float64; NaN and infinity where torch has them."""
    module = module_of(standardized, title, template, tmp_path)
    for cols in (256, 260, 33):
        x = torch.randn(4, cols) + 1000
        want = standardized(x.double()).float()
        torch.testing.assert_close(module.run([x], {}), want, rtol=2e-4, atol=2e-4)
        x[0] *= 1e17  # squares of the values, not of the deviations, overflow
        want = standardized(x.double()).float()
        torch.testing.assert_close(module.run([x], {})[:1], want[:1], rtol=2e-4, atol=2e-4)
        x[0], x[1, 3], x[2, 5] = 1, float("nan"), float("inf")
        want = standardized(x.double()).float()
        torch.testing.assert_close(module.run([x], {}), want, rtol=2e-4, atol=2e-4, equal_nan=True)


@pytest.mark.virtual
@pytest.mark.parametrize("function", [softmax, standardized])
def test_totals_of_the_next_row_wait_for_this_one(function, template, tmp_path):
    title = "one block a row, 16-byte packs"
    module = module_of(function, title, template, tmp_path, block=128, max_blocks=1056)
    x = torch.randn(2500, 12)
    assert_close(module.run([x], {}), function(x), [x])


@pytest.mark.plain
def test_the_main_case_fills_the_registers(template):
    task = Task("softmax", lambda: softmax, lambda: [torch.randn(8, 1024)])
    by_title = {f.title: f.default for f in template.families(task) if f.language == "cuda"}
    (warp,) = [d for t, d in by_title.items() if t.startswith(KEPT[1])]
    (block,) = [d for t, d in by_title.items() if t.startswith(KEPT[0])]
    assert warp["packs"] * 32 * 4 == 1024
    assert block["items"] * block["block"] * 4 == 1024


@pytest.mark.plain
def test_kept_variances_divide_nothing_along_the_row(template):
    task = Task("standardized", lambda: standardized, lambda: [torch.randn(8, 256)])
    family = next(f for f in template.families(task) if f.title.startswith(KEPT[1]))
    (text,) = [
        t for n, t in template.build(task, family, family.default).files.items() if n[-3:] == ".cu"
    ]
    kept = text[text.index("_kept(") : text.index("__global__")]
    assert "Welford" not in kept
    assert kept.count(" / ") == 2, "mean and variance of the row"
    assert "__shared__" not in text
    assert "__syncthreads" not in text


@pytest.mark.virtual
def test_triton_kernels_never_call_a_method_of_a_size():
    """Triton makes a Python int of an argument that is 1; older versions have no int.to."""
    import re
    from pathlib import Path

    from warpsmith.codegen import regions
    from warpsmith.spec import load_task

    task = load_task(Path(__file__).parents[2] / "examples/reduction/task.py")
    plan = regions.plan(task)
    for family in regions.families(plan, "triton"):
        point = {name: values[0] for name, values in family.parameters.items()}
        text = regions.candidate(plan, task, family, point, "test").entry
        assert re.search(r"tl\.cast\((rows|cols), tl\.float32\)", text)
        assert not re.search(r"\b(rows|cols)\.to\(", text)
