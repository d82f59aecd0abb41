"""Every seeded fault is found, with its kind and its line, and its mended twin has none."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import corpus
import pytest

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual

FILES = sorted(p for p in (corpus.HERE / "faulty").iterdir() if p.suffix in (".cu", ".ptx"))
KERNELS = [kernel for path in FILES for kernel in corpus.read(path)]
NOT_FOUND = {
    "global_races-block_scope_atomic_across_blocks": "atomics of block scope are taken for device scope",
    "warp-unrolled_last_warp": "volatile accesses are relaxed, so that PTX knows no race between them",
    "hopper-bulk_copy_parity_inverted": "a bulk copy lands before the phase is looked at",
}


def seeded(kernel):
    why = NOT_FOUND.get(kernel.id)
    marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
    return pytest.param(kernel, id=kernel.id, marks=marks)


@pytest.mark.parametrize("kernel", [seeded(k) for k in KERNELS])
def test_the_fault_is_found(kernel):
    assert kernel.expected, "no line is marked"
    result = corpus.launch(kernel)
    assert not corpus.complaints(kernel, result.findings)
    if any(w.severity == "error" for w in kernel.expected):
        assert result.fault is not None


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.id)
@pytest.mark.parametrize("schedule", ["default", "reverse"])
def test_the_mended_twin_is_clean(kernel, schedule):
    found = corpus.launch(kernel, mended=True, schedule=schedule).findings
    assert not [f.message for f in found if f.severity != "info"]


def test_the_corpus_is_large_and_covers_all_kinds():
    kinds = {w.kind for k in KERNELS for w in k.expected}
    assert len(KERNELS) >= 120
    assert len({k.name for k in KERNELS}) == len(KERNELS)
    from warpsmith.errors import FAULT_KINDS

    assert kinds == set(FAULT_KINDS) - {"illegal-access"}  # a CUDA GPU's word alone
