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
BLACKWELL = {
    ("matmul_tf32", 100), ("matmul_float8", 100), ("attention_causal", 100), ("scaled_mxfp8", 100),
    ("scaled_nvfp4", 100), ("rms_norm", 100), ("descriptor_gather_and_scatter", 100),
    ("descriptor_matmul_persistent_specialized", 100), ("descriptor_attention_specialized", 100),
    ("scaled_mixed", 120), ("scaled_nvfp4", 120),
}  # fmt: skip
"""What shows instructions of sm_100 and sm_120 that older GPUs lack: run every time."""


def cases() -> list:
    found = []
    for name, entry in corpus.load().items():
        for arch in entry.archs:
            always = arch in ALWAYS or (name, arch) in BLACKWELL
            marks = () if always else pytest.mark.slow
            found.append(pytest.param(name, arch, id=f"{name}-sm_{arch}", marks=marks))
    return found


@pytest.mark.parametrize(("name", "arch"), cases())
def test_right(name, arch):
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < corpus.ENTRIES[name].since:
        pytest.skip(f"Triton {triton.__version__} does not compile it")
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


IN_ORDER = ("scan_across_blocks",)
"""Programs that wait for blocks of lower numbers, which only start first in the default schedule."""


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["reverse", "random"])
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("theme", corpus.THEMES)
def test_right_in_other_schedules(theme, arch, schedule):
    for name, entry in corpus.load().items():
        if entry.theme == theme and arch in entry.archs and name not in IN_ORDER:
            corpus.run_virtually(entry, arch, max_seconds=60, schedule=schedule, seed=5)
