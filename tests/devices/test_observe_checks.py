"""A session under the sanitizer collects findings of launches on tensors, and knows fresh outputs."""
# SPDX-License-Identifier: Apache-2.0

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")

from warpsmith.devices.launch import launch  # noqa: E402
from warpsmith.devices.observe import observe  # noqa: E402
from warpsmith.errors import KernelFault, UsageError  # noqa: E402
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains.cuda import compile_source  # noqa: E402
from warpsmith.vgpu import Checks  # noqa: E402

pytestmark = pytest.mark.virtual

SOURCE = """__global__ void k(const float* x, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  SYNC;
  out[threadIdx.x] OP s[threadIdx.x ^ 1];
}
"""


def compiled(**defines):
    (artifact,) = compile_source(SOURCE, get("h100"), name="k.cu", defines=defines)
    return artifact


def run(artifact, out, **options):
    with observe(checks=Checks.all(), **options) as seen:
        launch(artifact, 1, 64, 0, (torch.randn(64), out))
    return seen


def test_a_warning_is_collected_and_does_not_raise():
    found = run(compiled(SYNC="", OP="="), torch.zeros(64)).findings
    assert [(f.severity, f.kind, f.source) for f in found] == [
        ("warning", "missing-syncwarp", "k.cu:5")
    ]


def test_an_error_is_collected_and_raised():
    kernel = compiled(SYNC="__syncwarp()", OP="+=")
    with observe(checks=Checks.all(), fresh=("out",)) as seen, pytest.raises(KernelFault) as raised:
        launch(kernel, 1, 64, 0, (torch.randn(64), torch.empty(64)))
    assert raised.value.kind == "uninitialized"
    assert [f.tensor for f in seen.findings] == ["out"]


def test_what_a_launch_could_write_is_fresh_no_more():
    add, fill = compiled(SYNC="__syncwarp()", OP="+="), compiled(SYNC="__syncwarp()", OP="=")
    out = torch.empty(64)
    with observe(checks=Checks.all(), fresh=("out",)) as seen:
        launch(fill, 1, 64, 0, (torch.randn(64), out))
        launch(add, 1, 64, 0, (torch.randn(64), out))
    assert not seen.findings


def test_without_checks_nothing_is_collected():
    with observe() as seen:
        launch(compiled(SYNC="", OP="="), 1, 64, 0, (torch.randn(64), torch.zeros(64)))
    assert not seen.findings


def test_an_unknown_option_is_told():
    with (
        pytest.raises(UsageError, match=r"expected target, count.*checks.*fresh"),
        observe(check=True),
    ):
        pass
