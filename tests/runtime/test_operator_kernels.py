"""Saved operators around real kernels: on the virtual GPU here, on a GPU where there is one."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from warpsmith.runtime.operator import load, save  # noqa: E402
from warpsmith.runtime.registration import OperatorFallback  # noqa: E402
from warpsmith.spec import (  # noqa: E402
    CaseResult,
    Outcome,
    Record,
    Verdict,
    load_candidate,
    load_task,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {  # kernel -> sizes to call it with; the second is a fallback
    "layer_norm/layer_norm.cu": ({"rows": 5}, {"rows": 0}),
    "softmax/softmax.cu": ({"rows": 6, "cols": 70}, {"rows": 0, "cols": 3}),
    "my_triton/swiglu_triton.py": ({"rows": 3, "cols": 70}, {"rows": 0, "cols": 3}),
    "reduction/reduction.cu": ({"rows": 40, "cols": 33}, {"rows": 0, "cols": 3}),
    "kernelbench_form/model_new.py": ({}, None),
}
VIRTUAL = pytest.param("cpu", marks=pytest.mark.virtual)
GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    ],
)
WHERE = pytest.mark.parametrize("device", [VIRTUAL, GPU])
KERNEL = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """kernel, device -> (operator, task). The verdict is assumed: tests/examples reaches it."""
    folder, known = tmp_path_factory.mktemp("operators"), {}

    def give(kernel, device):
        if (kernel, device) not in known:
            home = EXAMPLES / kernel.partition("/")[0]
            file = "residual_tanh.py" if home.name == "kernelbench_form" else "task.py"
            task = load_task(home / file)
            name = kernel.replace("/", "_").replace(".", "_")
            path = save(record_of(kernel, task, device), task, folder / device / name)
            known[kernel, device] = load(path, cpu="virtual"), task
        return known[kernel, device]

    return give


def record_of(kernel, task, device):
    target = "h100"
    if device == "cuda":
        from warpsmith.targets.detect import detect

        target = detect().name
    verdict = Verdict(Outcome.RIGHT, cases=(CaseResult("default seed=0", Outcome.RIGHT, 0.1),))
    candidate = load_candidate(EXAMPLES / kernel)
    return Record(task.id, task.name, candidate, "virtual", target, verdict=verdict)


def inputs_on(device, task, dims):
    return [v.to(device) if hasattr(v, "to") else v for v in task.get_inputs(**dims)]


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@WHERE
@KERNEL
def test_kernel_answers_inside_the_domain(kernel, device, loaded):
    operator, task = loaded(kernel, device)
    inputs, model = inputs_on(device, task, KERNELS[kernel][0]), operator.Model().to(device)
    reference = task.model(*task.get_init_inputs()).to(device)
    reference.load_state_dict(model.state_dict())
    before = operator.fallbacks
    close(model(*inputs), reference(*inputs))
    assert operator.fallbacks == before, operator.last_fallback


@WHERE
@pytest.mark.parametrize("kernel", [k for k in KERNELS if KERNELS[k][1] is not None])
def test_reference_answers_outside(kernel, device, loaded):
    operator, task = loaded(kernel, device)
    inputs, model = inputs_on(device, task, KERNELS[kernel][1]), operator.Model().to(device)
    before = operator.fallbacks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OperatorFallback)
        model(*inputs)
    assert operator.fallbacks == before + 1


@WHERE
def test_it_compiles_and_has_gradients(device, loaded):
    operator, task = loaded("layer_norm/layer_norm.cu", device)
    model = operator.Model().to(device)
    (x,) = inputs_on(device, task, {"rows": 3})
    x.requires_grad_()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(x).square().sum(), [x, *model.parameters()])
    state = dict(model.named_parameters())
    expected = operator.reference(x, state=state).square().sum()
    for a, b in zip(found, torch.autograd.grad(expected, [x, *model.parameters()])):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.virtual
def test_a_saved_kernel_lives_without_its_folder_once_loaded(tmp_path):
    import shutil

    task = load_task(EXAMPLES / "out_of_bounds" / "task.py")
    record = record_of("out_of_bounds/scale_fixed.cu", task, "cpu")
    operator = load(save(record, task, tmp_path / "scale"), cpu="virtual")
    x = torch.randn(300)
    close(operator(x), 2 * x + 1)
    shutil.rmtree(tmp_path / "scale")
    close(operator(x), 2 * x + 1)
    assert operator.fallbacks == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
class TestOnGpu:
    """What only a GPU shows: streams, graphs, inductor, a CPU that stays a CPU."""

    def test_inductor(self, loaded):
        operator, _ = loaded("softmax/softmax.cu", "cuda")
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x: operator(torch.sin(x).t().contiguous().t()) + 1, fullgraph=True
        )
        x = torch.randn(64, 70, device="cuda")
        before = operator.fallbacks
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OperatorFallback)
            close(compiled(x), torch.softmax(torch.sin(x), -1) + 1)
        assert operator.fallbacks == before + 1, "a transposed input is not the verified layout"
        compiled = torch.compile(lambda x: operator(torch.sin(x)) + 1, fullgraph=True)
        close(compiled(x), torch.softmax(torch.sin(x), -1) + 1)
        assert operator.fallbacks == before + 1

    def test_side_stream(self, loaded):
        operator, _ = loaded("softmax/softmax.cu", "cuda")
        x, stream = torch.randn(512, 1000, device="cuda"), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = operator(x * 2)
        stream.synchronize()
        close(y, torch.softmax(x * 2, -1))

    def test_cuda_graph(self, loaded):
        operator, _ = loaded("softmax/softmax.cu", "cuda")
        x = torch.randn(64, 200, device="cuda")
        operator(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = operator(x)
        x.copy_(torch.randn(64, 200, device="cuda"))
        graph.replay()
        close(y, torch.softmax(x, -1))

    def test_opcheck(self, loaded):
        operator, _ = loaded("softmax/softmax.cu", "cuda")
        x = torch.randn(5, 9, device="cuda", requires_grad=True)
        torch.library.opcheck(operator.torch_op, (x,))

    def test_slice_that_starts_between_vectors_is_no_fault(self, loaded):
        operator, _ = loaded("kernelbench_form/model_new.py", "cuda")
        whole = torch.rand(512 * 1024 + 1, device="cuda")
        x, scale = whole[1:].view(512, 1024), torch.randn(1024, device="cuda")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OperatorFallback)
            y = operator(x, state={"scale": scale})
        close(y, x + torch.tanh(x * scale))
        assert operator.fallback_reasons["alignment"] == 1
