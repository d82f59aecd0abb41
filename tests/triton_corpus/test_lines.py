"""Counted sites and faults of Triton kernels name the line of the Python source."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parent.parent))
import torch

from triton_corpus import marked
from triton_corpus.corpus import TARGETS, launch
from warpsmith.devices.observe import observe
from warpsmith.errors import KernelFault

pytestmark = pytest.mark.virtual
LINES = Path(marked.__file__).read_text().splitlines()
ARCHS = (80, 90, 100)


def line(mark):
    """ "marked.py:17", the line that ends with `# mark`."""
    (found,) = [i for i, text in enumerate(LINES, 1) if text.endswith(f"# {mark}")]
    return f"marked.py:{found}"


def fault(arch, kernel, *args, **options):
    with pytest.raises(KernelFault) as caught, observe(target=TARGETS[arch], max_seconds=20):
        launch(kernel, (1,), *args, **options)
    return caught.value


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("n", [32, 128])
def test_sites_of_a_product(arch, n):
    a, b = (torch.ones(n, n, dtype=torch.float16) for _ in range(2))
    c = torch.zeros(n, n)
    with observe(target=TARGETS[arch], count=True) as seen:
        launch(marked.product, (1,), a, b, c, N=n, FAR=0)
    assert torch.equal(c, torch.full((n, n), 2.0 * n))
    sources = {}
    for site in seen.counters[0].sites:
        sources.setdefault(site.operation, set()).add(site.source)
    assert sources["global_load"] == {line("load a"), line("load b")}
    assert sources["global_store"] == {line("store")}
    everything = set().union(*sources.values())
    assert all(s.startswith("marked.py:") for s in everything), everything


@pytest.mark.parametrize("arch", ARCHS)
def test_faults_of_stores_and_loads(arch):
    a, b = (torch.ones(128, 128, dtype=torch.float16) for _ in range(2))
    c, x, out = torch.zeros(128, 128), torch.zeros(300), torch.zeros(128)
    found = fault(arch, marked.product, a, b, c, N=128, FAR=128 * 127 + 1)
    assert (found.kind, found.source) == ("out-of-bounds", line("store"))
    found = fault(arch, marked.loop, x, out, 300, BLOCK=128)
    assert (found.kind, found.source) == ("out-of-bounds", line("load past"))
    assert "x[300]" in str(found)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_fault_in_an_inlined_function_is_at_its_own_line(arch):
    found = fault(arch, marked.outer, torch.zeros(128), torch.zeros(128), BLOCK=128)
    assert (found.kind, found.source) == ("out-of-bounds", line("load in helper"))


@pytest.mark.parametrize("arch", ARCHS)
def test_assertions_and_endless_loops(arch):
    found = fault(arch, marked.asserted, torch.full((128,), 11.0), BLOCK=128, debug=True)
    assert found.kind == "assert"
    assert "ten or more" in str(found)
    assert found.source == line("assert")
    with (
        pytest.raises(KernelFault) as caught,
        observe(target=TARGETS[arch], max_instructions=100_000),
    ):
        launch(marked.spinning, (1,), torch.ones(1, dtype=torch.int32))
    assert (caught.value.kind, caught.value.source) == ("step-budget", line("spin"))


@pytest.mark.parametrize("arch", ARCHS)
def test_misaligned_vectors(arch):
    found = fault(arch, marked.odd, torch.zeros(300), torch.zeros(256), BLOCK=256)
    assert (found.kind, found.source) == ("misaligned", line("misaligned"))
