"""Clusters, distributed shared memory, bulk copies and mbarriers of sm_90."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual


@pytest.fixture(scope="module")
def run():
    return Bench(cuda_file("hopper.cu", "sm_90a"))


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
def test_cluster_reads_and_adds_in_other_blocks(run, schedule):
    out = np.zeros((8, 32), np.int32)
    run.right("neighbors", (8,), (32,), out, cluster=(4, 1, 1), schedule=schedule)
    want = np.array([[100 * ((b + 1) % 4) + 31 - t for t in range(32)] for b in range(8)])
    want[[0, 4], 0] = 128
    assert np.array_equal(out, want)


def test_mapped_shared_addresses(run):
    out = np.zeros((2, 32), np.int32)
    run.right("mapped", (2,), (32,), out)
    t = np.arange(32)
    mine = [1000 + 10 + t, 1000 + t]  # what the other block wrote here
    assert np.array_equal(out, [mine[0] + 100000 * mine[1], mine[1] + 100000 * mine[0]])


def test_bulk_copies_complete_on_an_mbarrier(run):
    x, out = np.arange(768, dtype=np.float32), np.zeros(768, np.float32)
    run.right("bulk", (1,), (256,), x, out)
    assert np.array_equal(out.reshape(3, 256), 2 * x.reshape(3, 256)[:, ::-1])


def test_bulk_copies_are_checked(run):
    x, out = np.arange(700, dtype=np.float32), np.zeros(768, np.float32)
    assert run("bulk", (1,), (256,), x, out).fault.kind == "out-of-bounds"


def test_an_mbarrier_that_never_completes_is_a_deadlock(run):
    fault = run("never_arrives", (1,), (32,), np.zeros(32, np.int32)).fault
    assert fault.kind == "deadlock"
    assert "32 threads of warp 0 wait at an mbarrier (kernel.cu:" in fault.message
