"""Every Triton program of the corpus is right on the virtual GPU, for the GPUs that it is for."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parent.parent))
from triton_corpus import corpus

pytestmark = pytest.mark.virtual
ALWAYS = (80, 90)
BLACKWELL = ("matmul_tf32", "matmul_float8", "attention_causal", "scaled_mxfp8", "scaled_nvfp4",
             "rms_norm")  # fmt: skip
"""Programs that show what sm_100 alone has, run for it every time."""


def cases() -> list:
    found = []
    for name, entry in corpus.load().items():
        for arch in entry.archs:
            if arch >= 90 and entry.theme == "descriptors":
                continue  # until tensor maps are there
            if arch == 120 and entry.theme == "blackwell" and name != "packed_arithmetic":
                continue  # until block-scaled mma.sync is there
            always = arch in ALWAYS or (arch == 100 and name in BLACKWELL)
            marks = () if always else pytest.mark.slow
            found.append(pytest.param(name, arch, id=f"{name}-sm_{arch}", marks=marks))
    return found


@pytest.mark.parametrize(("name", "arch"), cases())
def test_right(name, arch):
    corpus.run_virtually(corpus.ENTRIES[name], arch, max_seconds=60)


def test_every_theme_and_every_gpu_is_there():
    entries = corpus.load()
    assert {e.theme for e in entries.values()} == set(corpus.THEMES)
    assert all(e.archs == corpus.ARCHS or e.why for e in entries.values())


def test_a_wrong_result_is_seen():
    """The corpus can fail: a kernel that computes something else does not pass."""
    from triton_corpus import elementwise

    kernel = elementwise.add_kernel
    try:
        elementwise.add_kernel = elementwise.dropout_kernel
        with pytest.raises(Exception):  # noqa: B017
            corpus.run_virtually(corpus.ENTRIES["vector_add"], 80)
    finally:
        elementwise.add_kernel = kernel
