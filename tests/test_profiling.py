"""`ws.profile`: launches seen, counters by section and line, times called modelled, a page that stands alone."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import html.parser
import io
import json

import pytest

import warpsmith as ws
from warpsmith.errors import UsageError
from warpsmith.vgpu.metrics import SECTIONS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.virtual

SOURCE = """
__global__ void strided(const float* x, float* out, int n, int stride) {
  __shared__ float tile[32 * 32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x * 32 % 1024] = 2.0f;
  __syncthreads();
  if (i < n) out[i] = tile[threadIdx.x * 32 % 1024] * x[i * stride];
}
"""


@pytest.fixture(scope="module")
def strided():
    kernel = ws.cuda(SOURCE)
    return ws.profile(kernel[4, 64], torch.ones(8 * 256), torch.zeros(256), 256, 8)


def test_a_launch_is_explained(strided):
    (kernel,) = strided.kernels
    assert (kernel.kernel, kernel.grid, kernel.block) == ("strided", (4, 1, 1), (64, 1, 1))
    assert kernel.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 256
    assert kernel.counters["estimated_dram__bytes_read.sum"] == 256 * 32
    assert kernel.time_us > 0
    assert kernel.bound in kernel.terms
    assert kernel.occupancy["limiter"] in kernel.occupancy["limits"]
    assert kernel.roofline["flops"] == 256
    assert list(kernel.sections) == [s for s in SECTIONS if s in kernel.sections]


def test_lines_show_what_is_wrong_with_them(strided):
    (kernel,) = strided.kernels
    worst = max(kernel.lines, key=lambda line: line["excess_sectors"])
    assert (
        strided.sources[worst["source"].rpartition(":")[0]]
        .splitlines()[worst["line"] - 1]
        .strip()
        .startswith("if (i < n)")
    )
    assert worst["excess_sectors"] == 256 - 32
    conflicts = [line for line in kernel.lines if line["excess_wavefronts"]]
    assert len(conflicts) == 2


def test_the_text_says_where_numbers_come_from(strided):
    said = strided.text(listing=True)
    assert str(strided) == strided.text()
    for words in ("MODELLED for NVIDIA H100 SXM", "estimates of a cache model", "modelled, bound by",
                  "of the roof", "Hottest lines", "occupancy", "Caches (estimated)"):  # fmt: skip
        assert words in said.replace("\n  ", " ")
    assert max(map(len, said.splitlines())) <= 100
    assert "out[i] = tile" in strided.text(listing=True, width=140)


def test_only_the_wanted_counters(strided):
    said = strided.text(metrics=["wavefronts"])
    assert "memory_l1_wavefronts_shared_ideal" in said
    assert "barriers" not in said
    assert "no counter has nonsense" in strided.text(metrics=["nonsense"])


class _Page(html.parser.HTMLParser):
    """Checks that tags close in order, and collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.open, self.loads = [], []

    def handle_starttag(self, tag, attributes):
        self.loads += [v for k, v in attributes if k in ("src", "href") and not v.startswith("#")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(strided, tmp_path):
    text = strided.html(tmp_path / "deep" / "page.html").read_text()
    page = _Page()
    page.feed(text)
    assert page.open == page.loads == []
    assert "<script" not in text
    assert "if (i &lt; n) out[i]" in text
    assert "MODELLED" in text
    assert text.count("<svg") == 2


def test_plain_data_and_rows(strided):
    plain = strided.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    rows = list(csv.DictReader(io.StringIO(strided.csv())))
    assert len(rows) == len(strided.rows()) == len(strided.kernels[0].lines)
    assert sum(int(r["global_sectors"]) for r in rows) == 256 + 32


def test_a_function_with_several_launches():
    kernel = ws.cuda(SOURCE)

    def twice(x, out):
        kernel[4, 64](x, out, 256, 8)
        kernel[2, 64](x, out, 128, 1)

    found = ws.profile(twice, torch.ones(8 * 256), torch.zeros(256), target="a100", caches=False)
    assert [k.grid for k in found.kernels] == [(4, 1, 1), (2, 1, 1)]
    assert found.target == "a100"
    assert not any(name.startswith("estimated_") for name in found.kernels[0].counters)
    assert "2 of 2: strided" in found.text()


def test_nothing_launched_is_a_mistake():
    with pytest.raises(UsageError, match="nothing was launched"):
        ws.profile(lambda: None)


def test_python_lines_of_triton(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    (tmp_path / "doubling_kernel.py").write_text(
        "import triton\nimport triton.language as tl\nimport warpsmith as ws\n\n\n"
        "@triton.jit\ndef double(x, out, n, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    value = tl.load(x + at, mask=at < n)\n"
        "    tl.store(out + at, value * 2 + tl.max(value, 0), mask=at < n)\n\n\n"
        "double = ws.triton(double)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import doubling_kernel

    x, out = torch.arange(256.0), torch.zeros(256)
    found = ws.profile(doubling_kernel.double[1,], x, out, 256, BLOCK=256)
    lines = {line["source"]: line for line in found.kernels[0].lines}
    assert set(lines) <= {f"doubling_kernel.py:{n}" for n in range(6, 11)} | {""}
    assert lines["doubling_kernel.py:9"]["global_sectors"] == 32
    assert lines["doubling_kernel.py:10"]["shared_requests"] > 0  # of the maximum, inlined
    assert "value = tl.load" in found.text(width=140)
