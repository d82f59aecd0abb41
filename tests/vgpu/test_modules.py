"""Language features of modules run right: vtables, function tables, alloca, printf, heap, clocks."""
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
I = np.arange(32, dtype=np.int32)  # noqa: E741


@pytest.fixture(scope="module", params=["sm_80", "sm_90"])
def run(request):
    return Bench(cuda_file("modules.cu", request.param))


def ints(n=32):
    return np.zeros(n, np.int32)


def test_virtual_functions(run):
    out = np.zeros(32, np.float32)
    run.right("virtuals", (1,), (32,), out, 32)
    assert np.array_equal(out, np.where(I % 2, I * 10, 11))


def test_functions_and_addresses_in_initializers(run):
    out = ints()
    run.right("pointers", (1,), (32,), out)
    first = np.choose(I % 3, [I + 5, I - 5, I * 5])
    assert np.array_equal(out, first + np.choose(I % 2, [I * 3, I + 3]) + 3 + 4)


def test_structs_by_value(run):
    out, doubles = ints(), np.zeros(32)
    run.right("structs", (1,), (32,), out, doubles)
    assert np.array_equal(out, 15 + I)
    assert np.array_equal(doubles, 2.0 * I)


def test_recursion(run):
    out, fib = ints(), [0, 1]
    fib += [0] * 10
    for i in range(2, 12):
        fib[i] = fib[i - 1] + fib[i - 2]
    run.right("recursion", (1,), (32,), out)
    assert list(out) == [fib[i % 12] for i in range(32)]


def test_alloca(run):
    out = ints()
    run.right("allocas", (1,), (32,), out)
    n = I % 7 + 1
    assert np.array_equal(out, n * n * (n - 1) // 2)
    run.right("alloca_in_loop", (1,), (32,), out, 40)
    assert np.array_equal(out, 40 * I + 780)


def test_alloca_without_end_is_a_stack_overflow(run):
    result = run("alloca_in_loop", (1,), (32,), ints(), 1 << 20)
    assert result.fault.kind == "stack-overflow"


def test_printf(run):
    printed = run.right("print", (1,), (2,)).printed.splitlines()
    assert printed[:2] == [f"{name}    -7|42    |ff 10 q %" for name in ("alpha", "beta")]
    numbers = "1.500000      3.142 1.000000e+10 0.1 str 0x10 -1 18446744073709551615 44 5"
    assert printed[2:4] == [numbers] * 2
    assert printed[4:] == ["    42|2.72|ab      |"] * 2


def test_clocks_advance(run):
    out = np.zeros(3, np.int64)
    run.right("clocks", (1,), (1,), out)
    slept, cycles, now = out
    assert slept >= 100 * 100  # of nanosleep alone
    assert now >= cycles >= slept


@pytest.mark.parametrize("threads", [32, 96])
def test_barrier_reductions(run, threads):
    given = (np.arange(threads) // 3).astype(np.int32)
    out = ints(3 * threads)
    run.right("reduce", (1,), (threads,), out, given)
    want = [np.count_nonzero(given), int(given.all()), int((given > 9).any())]
    assert np.array_equal(out.reshape(-1, 3), np.tile(want, (threads, 1)))


@pytest.mark.parametrize("blocks", [1, 4])
def test_the_heap_is_used_again(run, blocks):
    out = ints(8)
    run.right("heap", (blocks,), (8,), out, 8, workers=blocks)  # 64 MB in all, of 8 MB
    assert np.array_equal(out, I[:8])


def test_free_of_what_is_not_allocated(run):
    found = run("twice_freed", (1,), (1,), 0).fault
    assert found.kind == "double-free"
    assert "free already" in found.message
    assert "did not give" in run("never_allocated", (1,), (1,), ints()).fault.message


def test_jump_tables(run):
    out = ints()
    run.right("switches", (1,), (32,), out)
    assert list(out) == [[5, 17, 3, 99, 1, 1000, 7, -1, -1][i % 9] for i in range(32)]
