"""Every CUDA kernel of the virtual GPU's own tests, which run them all, translates for sm_80 and sm_90a."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda

from warpsmith.vgpu.ptx.parse import parse
from warpsmith.vgpu.translate import translate

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual
ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests/vgpu/kernels").glob("*.cu"))
LONG = {"libraries.cu", "sanitizer.cu"}  # of NVRTC: cub, and hundreds of small kernels
ONLY_SM_90 = {"hopper.cu"}  # asm of sm_90a


def kernels(file, arch):
    module = parse(cuda(file.read_text(), arch))
    names = [f.name for f in module.functions.values() if f.entry and f.defined]
    return [translate(module, name) for name in names]


def marked(file):
    return pytest.param(file, id=file.name, marks=[pytest.mark.slow] if file.name in LONG else [])


@pytest.mark.parametrize("file", [marked(f) for f in FILES])
def test_translates(file):
    for arch in ("sm_90a",) if file.name in ONLY_SM_90 else ("sm_80", "sm_90a"):
        programs = kernels(file, arch)
        assert programs
        assert all(p.ops for p in programs)


def test_there_are_many():
    assert sum(f.read_text().count("__global__") for f in FILES) >= 90
