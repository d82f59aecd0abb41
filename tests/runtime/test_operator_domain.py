"""Which calls an operator's kernel may take: sizes, types, layouts, alignment, machines, numbers."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import warnings

import operator_tasks as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from warpsmith.errors import MissingTool, OperatorError  # noqa: E402
from warpsmith.runtime.domain import domain_of, evaluate, fit, layout_of, solve  # noqa: E402
from warpsmith.runtime.operator import load, save  # noqa: E402
from warpsmith.runtime.reference import Reference  # noqa: E402
from warpsmith.runtime.registration import OperatorFallback  # noqa: E402
from warpsmith.spec import Range, Task, from_plain, to_plain  # noqa: E402

pytestmark = pytest.mark.plain


def task_with(get_inputs, **ranges):
    return Task("t", lambda: torch.sin, get_inputs, ranges=ranges)


def scale_and_stride(batch=2, rows=3, cols=4):
    x = torch.randn(batch * rows, 2 * cols + 1)
    return [x, torch.randn(rows, batch * cols), cols]


FITS = [
    (lambda rows=4, cols=4: [torch.randn(rows, cols)], {"rows": (1, 64), "cols": (1, 64)}),
    (scale_and_stride, {"batch": (1, 8), "rows": (1, 99, 1), "cols": (4, 64, 4)}),
    (lambda n=8: [torch.randn(n, n), [torch.randn(3 * n)], 0.5], {"n": (8, 512, 8)}),
    (lambda n=4, m=7: [torch.randn(n, m)], {"n": (1, 9), "m": (7, 7)}),
]


@pytest.mark.parametrize(("get_inputs", "ranges"), FITS)
def test_formulas_predict_and_are_solved(get_inputs, ranges):
    task = task_with(get_inputs, **ranges)
    formulas, note = fit(task)
    assert note == ""
    sizes = {
        n: st.integers(r.low // r.multiple, r.high // r.multiple) for n, r in task.ranges.items()
    }

    @settings(max_examples=30, deadline=None)
    @given(st.fixed_dictionaries(sizes))
    def holds(drawn):
        dims = {n: v * task.ranges[n].multiple for n, v in drawn.items()}
        free = {n: v for n, v in dims.items() if task.ranges[n].low < task.ranges[n].high}
        found = domain_sizes(get_inputs(**dims))
        assert evaluate(formulas, dims) == found
        assert solve(formulas, found) == free

    holds()


def domain_sizes(inputs):
    from warpsmith.runtime.domain import sizes_of

    return sizes_of(inputs)


@pytest.mark.parametrize(
    ("get_inputs", "ranges", "why"),
    [
        (lambda n=4: [torch.randn(n * n)], {"n": (1, 9)}, "does not follow a polynomial"),
        (lambda n=4: [torch.randn(n // 2)], {"n": (2, 9)}, "does not follow a polynomial"),
        (lambda n=4: [torch.randn(3) * n], {"n": (1, 9)}, "cannot be read off"),
        (lambda a=1, b=2: [torch.randn(a * b)], {"a": (1, 9), "b": (1, 9)}, "cannot be read off"),
        (lambda n=4: [torch.randn([2] * n)], {"n": (1, 5)}, "number of axes changes"),
        (lambda n=4: [torch.randn(n)], {}, "declares no ranges"),
        (lambda n=4: [torch.randn(n)], {"rows": (1, 5)}, "has no argument rows"),
    ],
)
def test_what_does_not_fit_is_said(get_inputs, ranges, why):
    formulas, note = fit(task_with(get_inputs, **ranges))
    assert formulas is None
    assert why in note


def test_probing_allocates_nothing_big():
    seen = []

    def get_inputs(n=1 << 20):
        x = torch.randn(n, 1 << 10)  # 4 GiB at the default
        seen.append(type(x).__name__)
        return [x]

    assert fit(task_with(get_inputs, n=(1 << 20, 1 << 24, 1 << 20)))[1] == ""
    assert set(seen) == {"FakeTensor"}


def test_domain_survives_json(tmp_path):
    task = samples.task_of(samples.SCALARS, tmp_path)
    record = samples.record_of(samples.SCALARS, task)
    domain = domain_of(task, record, Reference(task), (9, 0))
    assert from_plain(type(domain), to_plain(domain)) == domain
    assert domain.ranges["k"] == Range(1, 5)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.empty(2, 3), (0, 1)),
        (torch.empty(2, 3).t(), (1, 0)),
        (torch.empty(2, 5, 3, 3).to(memory_format=torch.channels_last), (0, 2, 3, 1)),
        (torch.empty(4, 6)[:, ::2], ()),
        (torch.empty(()), ()),
    ],
)
def test_layouts(tensor, expected):
    assert layout_of(tensor) == expected


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    """name -> operator whose CPU calls go to the kernel."""
    folder = tmp_path_factory.mktemp("operators")

    def make(sample):
        task = samples.task_of(sample, folder)
        return load(
            save(samples.record_of(sample, task), task, folder / sample.name), cpu="virtual"
        )

    return {s.name: make(s) for s in (samples.SOFTMAX, samples.SCALARS, samples.ARGMAX)}


def odd_start(rows, cols):
    return torch.randn(rows * cols + 1)[1:].view(rows, cols)


OUTSIDE = [
    ("softmax", lambda: [torch.randn(101, 8)], "shape", "rows=101 is outside 1 … 100"),
    ("softmax", lambda: [torch.randn(2, 3, 4)], "layout", "not laid out as verified"),
    ("softmax", lambda: [torch.randn(8, 8).double()], "dtype", "verified with float32"),
    ("softmax", lambda: [torch.randn(8, 16).t()], "layout", "not laid out as verified"),
    ("softmax", lambda: [torch.randn(8, 32)[:, ::2]], "layout", "not laid out as verified"),
    ("softmax", lambda: [odd_start(8, 8)], "alignment", "multiple of 32 bytes"),
    (
        "scalars",
        lambda: [torch.randn(3, 10), 2, 0.25, True, torch.ones(3, 10)],
        "value",
        "verified with 0.5",
    ),
    (
        "scalars",
        lambda: [torch.randn(3, 10), 6, 0.5, True, torch.ones(3, 10)],
        "shape",
        "k=6 is outside",
    ),
    (
        "scalars",
        lambda: [torch.randn(3, 10), 2, 0.5, False, torch.ones(3, 10)],
        "value",
        "verified with True",
    ),
    (
        "scalars",
        lambda: [torch.randn(3, 11), 2, 0.5, True, torch.ones(3, 11)],
        "shape",
        "do not fit together",
    ),
    ("scalars", lambda: [torch.randn(3, 10), 2, 0.5, True, None], "value", "mask is None"),
    ("argmax_and_view", lambda: [torch.randn(9, 16)], "shape", "none of the verified cases"),
]
INSIDE = [
    ("softmax", lambda: [torch.randn(100, 64)]),
    ("softmax", lambda: [torch.randn(1, 1)]),
    ("scalars", lambda: [torch.randn(9, 10), 5, 0.5, True, torch.ones(9, 10)]),
    ("argmax_and_view", lambda: [torch.randn(8, 16)]),
]


@pytest.mark.parametrize(("name", "inputs", "word", "text"), OUTSIDE)
def test_outside_the_domain_the_reference_answers_and_it_counts(
    operators, name, inputs, word, text
):
    operator, values = operators[name], inputs()
    before, of_word = operator.fallbacks, operator.fallback_reasons.get(word, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OperatorFallback)
        found = operator(*values)
    torch.testing.assert_close(found, operator.reference(*values))
    assert operator.fallbacks == before + 1
    assert operator.fallback_reasons[word] == of_word + 1
    assert text in operator.last_fallback


@pytest.mark.parametrize(("name", "inputs"), INSIDE)
def test_inside_the_domain_the_kernel_answers(operators, name, inputs):
    operator, values = operators[name], inputs()
    before = operator.fallbacks
    torch.testing.assert_close(operator(*values), operator.reference(*values))
    assert operator.fallbacks == before


def test_cpu_tensors_use_the_reference_by_default_and_that_is_no_fallback(operators):
    operator = operators["softmax"]
    operator.cpu = "reference"
    before = operator.fallbacks
    operator(torch.randn(500, 500).double())
    assert operator.fallbacks == before
    operator.cpu = "virtual"


def test_it_warns_once(tmp_path):
    operator = fresh_softmax(tmp_path, samples.SOFTMAX.candidate + "\n# warns once\n")
    with pytest.warns(OperatorFallback, match="rows=200 is outside 1 … 100"):
        operator(torch.randn(200, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator(torch.randn(300, 4))
    assert operator.fallbacks == 2


def fresh_softmax(folder, text):
    sample = dataclasses.replace(samples.SOFTMAX, candidate=text)
    task = samples.task_of(sample, folder)
    return load(save(samples.record_of(sample, task), task, folder / "op"), cpu="virtual")


def test_a_kernel_that_cannot_be_built_falls_back_and_says_so(tmp_path):
    text = "import a_compiler_that_is_not_here\ndef run(inputs, state): ...\n"
    operator = fresh_softmax(tmp_path, text)
    with pytest.warns(OperatorFallback, match="cannot be built here.*a_compiler_that_is_not_here"):
        out = operator(torch.ones(2, 4))
    torch.testing.assert_close(out, torch.full((2, 4), 0.25))
    operator(torch.ones(2, 4))
    assert operator.fallback_reasons == {"toolchain": 2}


def test_a_missing_tool_falls_back(tmp_path):
    text = (
        "from warpsmith.errors import MissingTool\n"
        "def run(inputs, state): raise MissingTool('nvrtc', 'no wheel', 'pip install it')\n"
    )
    operator = fresh_softmax(tmp_path, text)
    with pytest.warns(OperatorFallback, match="pip install it"):
        operator(torch.ones(2, 4))
    assert issubclass(MissingTool, Exception)


def test_other_failures_are_not_hidden(tmp_path):
    operator = fresh_softmax(tmp_path, "def run(inputs, state): return 1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        operator(torch.ones(2, 4))


def test_another_gpu_is_outside(operators, monkeypatch):
    """The guard asks the GPU that the tensors are on; a stand-in answers, there is none here."""
    domain = operators["softmax"]._body.domain
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))

    class OnGpu:
        is_cuda, device = True, torch.device("cuda", 0)

    monkeypatch.setattr("warpsmith.runtime.domain._tensors", lambda value: [OnGpu()])
    word, text = domain._devices_outside([None], {})
    assert word == "device"
    assert text == "this GPU has compute capability 8.0, verified on 9.0"


def test_inputs_that_no_schema_has_are_refused(tmp_path):
    text = samples.SOFTMAX.task.replace("[torch.randn(rows, cols)]", "[object()]")
    sample = dataclasses.replace(samples.SOFTMAX, task=text)
    task = samples.task_of(sample, tmp_path)
    with pytest.raises(OperatorError, match="input 'x' is a object; an operator takes tensors"):
        save(samples.record_of(sample, task), task, tmp_path / "op")
