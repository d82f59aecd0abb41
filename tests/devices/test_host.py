"""A candidate in this process: its inputs are guarded, its memory is poisoned, its endings are typed."""
# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
from runs import body, work

from warpsmith import targets
from warpsmith.devices import memory
from warpsmith.devices.local import Local
from warpsmith.spec import Outcome

pytestmark = pytest.mark.plain
X = torch.arange(12.0).reshape(3, 4)

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64]


@pytest.fixture(scope="module")
def device():
    opened = Local("virtual", targets.get("h100"))
    yield opened
    opened.close()


def test_inputs_are_aligned_and_end_where_they_end(device):
    code = "t = [i for i in inputs]\nreturn [torch.tensor([i.data_ptr() % 256, i.untyped_storage().nbytes() - i.numel() * i.element_size()]) for i in t]"
    run = device.run(body(code, [X, X.half(), X.bool(), X.double()[:1]]))
    assert all(o.tolist() == [0, 0] for o in run.outputs)


@pytest.mark.parametrize("view", [X.T, X[:, 1:3], X[::2], X.expand(2, 3, 4), X[:, :0], X[0, 0]])
def test_strides_are_kept(device, view):
    run = device.run(body("return x.clone(), torch.tensor(x.stride())", [view]))
    assert torch.equal(run.outputs[0], view)
    if view.numel():
        assert tuple(run.outputs[1].tolist()) == view.stride()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "allocate",
    [
        "torch.empty(4, 5, dtype=x.dtype)",
        "torch.empty_like(x)",
        "x.new_empty(3)",
        "torch.empty_strided((4, 5), (1, 4), dtype=x.dtype)",
    ],
)
def test_fresh_memory_is_poisoned(device, dtype, allocate):
    run = device.run(body(f"return {allocate}", [X.to(dtype)]))
    words = memory.flat_bytes(run.outputs[0]).view(torch.int16)
    assert bool((words == memory.POISON_WORD).all())
    if dtype.is_floating_point:
        assert bool(run.outputs[0].isnan().all())


def test_after_a_run_memory_is_as_before(device):
    allocate = torch.empty
    device.run(body("raise ValueError", [X]))
    assert torch.empty is allocate


def test_changed_inputs_are_named_and_shown(device):
    run = device.run(body("inputs[1][0] += 1\nreturn x + 0", [X, X]))
    assert run.changed_inputs == (0, 1)  # one tensor given twice is one tensor
    run = device.run(body("inputs[1][0] += 1\nreturn x + 0", [X, X + 1]))
    assert run.changed_inputs == (1,)
    assert torch.equal(run.details["after"]["1"][0], X[0] + 2)
    assert torch.equal(X, torch.arange(12.0).reshape(3, 4))


def test_writes_around_an_input_are_seen(device):
    run = device.run(body("ctypes.memset(x.data_ptr() - 8, 1, 4)\nreturn x + 0", [X]))
    assert run.outcome is Outcome.OUT_OF_BOUNDS
    assert "input 0" in run.message


def test_outputs_that_share_memory_with_inputs_are_named(device):
    assert device.run(body("return x[1:], x + 0", [X])).details["aliases"] == [[0, 0]]


def test_forms_of_outputs(device):
    run = device.run(body("return {'a': x, 'b': [x + 1, (None, 3)]}", [X]))
    assert len(run.outputs) == 4
    assert run.outputs[2:] == (None, 3)


def test_errors_point_at_the_candidates_own_line(device):
    run = device.run(body("def deep(n):\n    return [][n] if n else deep(1)\ndeep(0)", [X]))
    assert run.source == "candidate.py:5"
    assert "IndexError: list index out of range at candidate.py:5" in run.message


def test_gradients_by_autograd(device):
    weight = torch.randn(4, 4).requires_grad_()
    given = body("return x @ state['w'] + state['b']", [X, torch.arange(3)])
    given = work(
        given.candidate.files["candidate.py"],
        given.inputs,
        state={"w": weight.detach().requires_grad_(), "b": torch.ones(4)},
        gradients=[torch.ones(3, 4)],
    )
    run = device.run(given)
    assert run.outcome is Outcome.RIGHT, run.message
    assert len(run.gradients) == 2  # of x and w: b asks for none, integers have none
    assert torch.allclose(run.gradients[0], torch.ones(3, 4) @ weight.detach().T)


MODEL = """
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(n, n))
        self.register_buffer('own', torch.full((n,), 7.0))
    def forward(self, x):
        return x @ self.w + self.own
"""


def test_weights_go_to_the_module_by_name(device):
    weight = torch.randn(4, 4)
    run = device.run(work(MODEL, [X], state={"w": weight}, init_inputs=[4]))
    assert torch.equal(run.outputs[0], X @ weight + 7)
    for state, words in [
        ({"w": weight[:2]}, "shapes must be equal"),
        ({"v": weight}, "'w' (4, 4) that the reference does not have"),
        ({"w": weight, "v": weight}, "the reference has 'v' (4, 4), which ModelNew does not have"),
    ]:
        run = device.run(work(MODEL, [X], state=state, init_inputs=[4]))
        assert run.outcome is Outcome.BAD_CANDIDATE
        assert words in run.message


def test_operators_are_recorded_on_the_virtual_gpu(device):
    run = device.run(body("y = torch.empty(3, 4)\ny.copy_(x)\nreturn (x.T @ y).relu().T", [X]))
    names = [o["name"] for o in run.details["operators"]]
    assert names == ["copy_", "mm", "relu"]
    assert run.details["operators"][1] == {
        "name": "mm",
        "bytes_read": 96,
        "bytes_written": 64,
        "flops": 96.0,
        "pipe": "fp32",
    }
    assert device.run(body("return x + 1", [X]), count=False).details["operators"] == []


def test_the_seed_is_set(device):
    given = body("return torch.rand(3)", [X], seed=5)
    assert torch.equal(device.run(given).outputs[0], device.run(given).outputs[0])


def test_an_untyped_error_of_our_own_is_named_as_a_possible_bug(tmp_path):
    from warpsmith.devices.endings import ending_of
    from warpsmith.targets import occupancy

    def raised(call):
        try:
            call()
        except Exception as error:
            return ending_of(error, tmp_path)
        raise AssertionError("nothing was raised")

    ours = raised(lambda: occupancy(None, 32, 32, 0))
    theirs = raised(lambda: 1 // 0)
    assert ours.outcome is theirs.outcome is Outcome.BAD_CANDIDATE
    assert "a bug of warpsmith" in ours.message
    assert "targets/occupancy.py:" in ours.message
    assert "warpsmith" not in theirs.message
