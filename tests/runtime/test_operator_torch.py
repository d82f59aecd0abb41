"""A saved operator is an ordinary PyTorch operator: values, gradients, compile, export, opcheck."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings

import operator_tasks as samples
import pytest

torch = pytest.importorskip("torch")

from warpsmith.errors import UsageError  # noqa: E402
from warpsmith.runtime.operator import load, save  # noqa: E402
from warpsmith.runtime.reference import outputs_of  # noqa: E402
from warpsmith.runtime.registration import OperatorFallback  # noqa: E402

pytestmark = pytest.mark.plain
EVERY = pytest.mark.parametrize("sample", samples.SAMPLES, ids=lambda s: s.name)
DIFFERENTIABLE = pytest.mark.parametrize(
    "sample", [s for s in samples.SAMPLES if s.differentiable], ids=lambda s: s.name
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """sample -> (operator that runs its kernel on the CPU, task); each is saved once."""
    folder, known = tmp_path_factory.mktemp("operators"), {}

    def make(sample):
        if sample.name not in known:
            task = samples.task_of(sample, folder)
            path = save(samples.record_of(sample, task), task, folder / sample.name)
            known[sample.name] = load(path, cpu="virtual"), task
        return known[sample.name]

    return make


def model_and_inputs(operator, task):
    """The operator's model, the reference with equal weights, inputs."""
    model, reference = operator.Model(), task.model(*task.get_init_inputs())
    reference.load_state_dict(model.state_dict())
    return model, reference, task.get_inputs()


def tensors(value):
    return list(outputs_of(value))


def leaves_of(inputs):
    flat = [t for v in inputs for t in (v if isinstance(v, list) else [v])]
    return [t.requires_grad_() for t in flat if isinstance(t, torch.Tensor)]


def gradients(function, inputs, parameters):
    """Of the sum of the floating outputs, weighted so that no element counts twice the same."""
    leaves = leaves_of(inputs)
    total = sum(
        (o * torch.linspace(0.5, 1.5, o.numel()).view_as(o)).sum()
        for o in tensors(function(*inputs))
        if o.is_floating_point()
    )
    return torch.autograd.grad(total, [*leaves, *parameters])


def assert_equal(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@EVERY
def test_values_and_form_are_the_reference_s(sample, made):
    operator, task = made(sample)
    model, reference, inputs = model_and_inputs(operator, task)
    before = operator.fallbacks
    found, expected = model(*inputs), reference(*inputs)
    assert type(found) is type(expected)
    assert_equal(found, expected)
    assert operator.fallbacks == before


@EVERY
def test_functional_form_takes_the_state(sample, made):
    operator, task = made(sample)
    model, reference, inputs = model_and_inputs(operator, task)
    assert_equal(operator.op(*inputs, state=model.state_dict()), reference(*inputs))


@EVERY
def test_schema(sample, made):
    operator, _ = made(sample)
    assert str(operator.torch_op._schema).endswith(sample.schema)


@EVERY
def test_outputs_share_no_memory(sample, made):
    operator, task = made(sample)
    model, _, inputs = model_and_inputs(operator, task)
    for way in ("virtual", "reference"):
        operator.cpu = way
        outputs = tensors(model(*inputs))
        homes = [t.untyped_storage().data_ptr() for t in (*outputs, *leaves_of(inputs))]
        assert len(set(homes)) == len(homes)
        assert all(o.is_contiguous() for o in outputs)
    operator.cpu = "virtual"


@EVERY
def test_opcheck(sample, made):
    operator, task = made(sample)
    model, _, inputs = model_and_inputs(operator, task)
    if sample.differentiable:
        leaves_of(inputs)
    state = [*model.parameters(), *model.buffers()]
    torch.library.opcheck(operator.torch_op, (*inputs, *state))


@DIFFERENTIABLE
@pytest.mark.parametrize("way", ["reference", "virtual"])
def test_gradients_are_the_reference_s(sample, way, made):
    operator, task = made(sample)
    model, reference, inputs = model_and_inputs(operator, task)
    operator.cpu = way
    found = gradients(model, inputs, model.parameters())
    expected = gradients(reference, inputs, reference.parameters())
    operator.cpu = "virtual"
    assert_equal(found, expected)


def test_own_gradient_is_used_where_the_kernel_is(made):
    operator, task = made(samples.LINEAR)
    model, _, inputs = model_and_inputs(operator, task)
    calls = operator._body._function("run").__globals__["calls"]
    calls.clear()
    gradients(model, inputs, model.parameters())
    assert len(calls) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OperatorFallback)
        gradients(model, [torch.randn(65, 6)], model.parameters())  # outside: the reference's
    assert len(calls) == 1


def test_a_buffer_s_gradient_comes_from_the_reference(made):
    """Candidates give gradients of inputs and parameters alone."""
    operator, task = made(samples.LINEAR)
    model, reference, inputs = model_and_inputs(operator, task)
    state = {n: t.detach().requires_grad_() for n, t in model.state_dict().items()}
    found = torch.autograd.grad(operator(*inputs, state=state).sum(), state["scale"])
    hidden = torch.relu(reference.fc(*inputs)).sum(0)
    assert_equal(found[0], hidden.detach())


def test_integer_outputs_have_no_gradient(made):
    operator, _ = made(samples.ARGMAX)
    assert not operator(torch.randn(8, 16, requires_grad=True)).requires_grad


@EVERY
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiles_whole(sample, backend, made):
    operator, task = made(sample)
    model, reference, inputs = model_and_inputs(operator, task)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    assert_equal(compiled(*inputs), reference(*inputs))
    if sample.differentiable:
        found = gradients(compiled, inputs, model.parameters())
        assert_equal(found, gradients(reference, inputs, reference.parameters()))


def test_compiles_for_any_size(made):
    operator, _ = made(samples.SOFTMAX)
    torch._dynamo.reset()
    compiled = torch.compile(operator.Model(), fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 5, 99):
        x = torch.randn(rows, 7)
        assert_equal(compiled(x), torch.softmax(x, -1))


@EVERY
def test_exports(sample, made):
    operator, task = made(sample)
    model, reference, inputs = model_and_inputs(operator, task)
    program = torch.export.export(model, tuple(inputs))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert any(operator.name.replace("::", ".") in n for n in names)
    assert_equal(program.module()(*inputs), reference(*inputs))


def test_fake_tensors_follow_the_reference(made):
    from torch._subclasses.fake_tensor import FakeTensorMode

    operator, _ = made(samples.SCALARS)
    with FakeTensorMode():
        x = torch.empty(7, 10, device="cuda")
        values, indices = operator(x, 4, 0.5, True, torch.empty(7, 10, device="cuda"))
    assert values.shape == indices.shape == (7, 4)
    assert (values.dtype, indices.dtype) == (torch.float32, torch.int64)
    assert values.device.type == "cuda"


def test_autocast_does_not_change_dtypes(made):
    operator, task = made(samples.LINEAR)
    model, _, inputs = model_and_inputs(operator, task)
    operator.cpu = "reference"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(*inputs).dtype == torch.float32
    operator.cpu = "virtual"


def test_model_has_the_reference_s_state_dict_and_moves(made):
    operator, task = made(samples.LINEAR)
    model, reference, _ = model_and_inputs(operator, task)
    assert list(model.state_dict()) == list(reference.state_dict())
    assert {t.dtype for t in model.double().parameters()} == {torch.float64}
    assert "fc" in dict(model.named_children())


def test_a_training_step_works(made):
    operator, task = made(samples.LINEAR)
    model, _, inputs = model_and_inputs(operator, task)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(*inputs) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_misuse_says_what_to_pass(made):
    linear, _ = made(samples.LINEAR)
    scalars, _ = made(samples.SCALARS)
    x = torch.randn(4, 6)
    with pytest.raises(UsageError, match=r"expected \['fc.bias', 'fc.weight', 'scale'\]"):
        linear(x)
    with pytest.raises(UsageError, match=r"takes \(x, k, alpha, descending, mask\); got 1 inputs"):
        scalars(x)
    with pytest.raises(UsageError, match=r"verified for \(6, 5\) only"):
        linear.Model(7, 5)
    with pytest.raises(UsageError, match="expected one of 'reference', 'virtual'"):
        linear.cpu = "fast"


def test_inputs_by_name_and_optional_ones(made):
    operator, _ = made(samples.SCALARS)
    x, mask = torch.randn(3, 10), torch.ones(3, 10)
    found = operator(x, k=2, alpha=0.5, mask=mask, descending=True)
    assert_equal(found, operator(x, 2, 0.5, True, mask))
    operator.cpu = "reference"
    values, _ = operator(x, 2, 0.5, True)
    operator.cpu = "virtual"
    assert_equal(values, torch.topk(x * 0.5, 2).values)


@pytest.mark.filterwarnings("ignore::warpsmith.runtime.registration.OperatorFallback")
def test_a_call_that_is_watched_goes_through_the_dispatcher(made):
    """Unwatched calls skip it, to be quick; tracers and profilers must see the operator."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.profiler import ProfilerActivity, profile

    operator, _ = made(samples.SOFTMAX)
    x = torch.randn(4, 5)
    assert operator.name.replace("::", ".") in make_fx(lambda v: operator(v))(x).code
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        operator(x)
    assert operator.name in {event.key for event in seen.key_averages()}
    stacked = torch.randn(3, 4, 5)
    assert_equal(torch.vmap(lambda v: operator(v))(stacked), torch.softmax(stacked, -1))


def test_unwatched_calls_record_nothing(made):
    operator, task = made(samples.LINEAR)
    model, reference, inputs = model_and_inputs(operator, task)
    with torch.no_grad():
        found = model(*inputs)
    assert not found.requires_grad
    assert_equal(found, reference(*inputs).detach())
    assert model(*inputs).requires_grad


def test_models_are_copied_and_saved_like_others(made, tmp_path):
    import copy

    operator, task = made(samples.LINEAR)
    model, _, inputs = model_and_inputs(operator, task)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.fc.bias += 1
    assert not torch.equal(twin(*inputs), model(*inputs))
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    twin.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert_equal(twin(*inputs), model(*inputs))
