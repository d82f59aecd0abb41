"""The memory runtime moves the right bytes, counts them exactly and refuses the rest."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from memory_harness import ATOMICS, FULL, TYPES, Bench

from warpsmith.errors import FAULT_KINDS, UsageError
from warpsmith.vgpu.faults import Place, describe
from warpsmith.vgpu.memory import ALIGNMENT_BYTES, Memory, copy_of, empty

pytestmark = pytest.mark.virtual

LANES = np.arange(32)
MASKS = [FULL, 1, 0x80000000, 0x0000FFFF, 0xAAAAAAAA, 0x7FFFFFFF]
UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
INT = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
SHAPES = [(m, r) for m in (1, 2, 4, 8) for r in (2, 4, 8) if r >= m]


def lanes_of(mask: int) -> np.ndarray:
    return np.array([mask >> lane & 1 for lane in range(32)], bool)


@pytest.fixture
def buffer():
    """8 KiB of random bytes, alone in an allocation table."""
    data = empty(8192)
    data[:] = np.random.default_rng(7).integers(0, 256, 8192, np.uint8)
    return data


@pytest.fixture
def known(buffer):
    memory = Memory()
    memory.register(buffer.ctypes.data, buffer.nbytes, "x", element_bytes=4)
    return memory


def addresses(buffer, order: str, width: int) -> np.ndarray:
    rng = np.random.default_rng(width)
    slots = {
        "contiguous": LANES,
        "reversed": LANES[::-1],
        "broadcast": np.full(32, 5),
        "strided": LANES * 5,
        "random": rng.integers(0, 8192 // width, 32),
    }[order]
    return buffer.ctypes.data + slots * width


# ---------------------------------------------------------------------------------- moving data


@pytest.mark.parametrize("order", ["contiguous", "reversed", "broadcast", "strided", "random"])
@pytest.mark.parametrize(("nbytes", "reg_bytes"), SHAPES)
@pytest.mark.parametrize("is_signed", [0, 1])
@pytest.mark.parametrize("counting", [False, True])
def test_loads_extend_like_the_type_says(
    buffer, known, order, nbytes, reg_bytes, is_signed, counting
):
    at = addresses(buffer, order, nbytes)
    kind = INT[nbytes] if is_signed else UINT[nbytes]
    want = (
        buffer.view(kind)[(at - buffer.ctypes.data) // nbytes]
        .astype(INT[reg_bytes])
        .view(UINT[reg_bytes])
    )
    for mask in MASKS:
        into = np.full(32, 0xAB, UINT[reg_bytes])
        with Bench(known.table(), counting=counting) as bench:
            access = bench.access("global", nbytes, 1, reg_bytes, is_signed=is_signed)
            for _ in range(2):  # the second time the allocation is remembered
                assert bench.load(access, at, [into], mask) == 0
        on = lanes_of(mask)
        np.testing.assert_array_equal(into[on], want[on])
        assert (into[~on] == 0xAB).all()


@pytest.mark.parametrize("order", ["contiguous", "broadcast", "random"])
@pytest.mark.parametrize(
    ("nbytes", "count"), [(4, 2), (4, 4), (4, 8), (8, 2), (8, 4), (2, 4), (1, 4), (2, 8)]
)
def test_vector_loads_and_stores_round_trip(buffer, known, order, nbytes, count):
    width = nbytes * count
    at = addresses(buffer, order, width)
    slot = (at - buffer.ctypes.data) // nbytes
    values = buffer.view(UINT[nbytes])
    reg = UINT[max(nbytes, 2)]
    for mask in MASKS:
        on = lanes_of(mask)
        into = [np.zeros(32, reg) for _ in range(count)]
        with Bench(known.table(), counting=False) as bench:
            access = bench.access("global", nbytes, count)
            for _ in range(2):  # the second time the allocation is remembered
                assert bench.load(access, at, into, mask) == 0
            for i in range(count):
                np.testing.assert_array_equal(into[i][on], values[slot + i][on])
            fresh = [np.random.default_rng(i).integers(0, 99, 32).astype(reg) for i in range(count)]
            want = values.copy()
            for lane in LANES[on]:
                for i in range(count):
                    want[slot[lane] + i] = fresh[i][lane]
            assert bench.store(access, at, fresh, mask) == 0
            np.testing.assert_array_equal(values, want)


def test_a_sink_skips_its_element(buffer, known):
    into = np.zeros(32, np.uint32)
    with Bench(known.table()) as bench:
        at = buffer.ctypes.data + LANES * 8
        assert bench.load(bench.access("global", 4, 2), at, [None, into]) == 0
        assert bench.load(bench.access("global", 4, 1), at, [None]) == 0
    np.testing.assert_array_equal(into, buffer.view(np.uint32)[1:64:2])


def test_sixteen_byte_elements(buffer, known):
    into = np.zeros((32, 2), np.uint64)
    with Bench(known.table()) as bench:
        at = buffer.ctypes.data + LANES * 32
        access = bench.access("global", 16, 1, 16)
        assert bench.load(access, at, [into]) == 0
        np.testing.assert_array_equal(into, buffer.view(np.uint64).reshape(-1, 4)[:32, :2])
        assert bench.store(access, at + 16, [into]) == 0
    halves = buffer.view(np.uint64).reshape(-1, 4)[:32]
    np.testing.assert_array_equal(halves[:, :2], halves[:, 2:])


def test_the_offset_is_added(buffer, known):
    into = np.zeros(32, np.uint32)
    with Bench(known.table()) as bench:
        access = bench.access("global", 4, offset=-64)
        assert bench.load(access, buffer.ctypes.data + 128 + LANES * 4, [into]) == 0
    np.testing.assert_array_equal(into, buffer.view(np.uint32)[16:48])


def test_shared_and_local_are_offsets():
    values = np.arange(32, dtype=np.uint32)
    into = np.zeros(32, np.uint32)
    with Bench() as bench:
        bench.store(bench.access("shared", 4), LANES * 8, [values])
        np.testing.assert_array_equal(bench.shared.view(np.uint32)[:64:2], values)
        bench.store(bench.access("local", 4), np.full(32, 60), [values + 7])
        bench.load(bench.access("local", 4), np.full(32, 60), [into])
        np.testing.assert_array_equal(into, values + 7)


def test_a_generic_access_may_mix_all_spaces(buffer, known):
    shared = np.arange(100, 132, dtype=np.uint32)
    local = np.arange(200, 232, dtype=np.uint32)
    into = np.zeros(32, np.uint32)
    with Bench(known.table()) as bench:
        bench.store(bench.access("shared", 4), LANES * 4, [shared])
        bench.store(bench.access("local", 4), np.zeros(32), [local])
        homes = [
            buffer.ctypes.data + LANES * 4,
            bench.shared_address + LANES * 4,
            bench.local_address + LANES * 64,
        ]
        at = np.choose(LANES % 3, homes)
        assert bench.load(bench.access("generic", 4), at, [into]) == 0
    want = np.choose(LANES % 3, [buffer.view(np.uint32)[:32], shared, local])
    np.testing.assert_array_equal(into, want)


# ------------------------------------------------------------------------------------- counting


def sectors(at, width, mask=FULL):
    return len({int(a) // 32 for a, on in zip(at, lanes_of(mask)) if on})


def ideal_sectors(at, width, mask=FULL):
    return -(-len({int(a) for a, on in zip(at, lanes_of(mask)) if on}) * width // 32)


@pytest.mark.parametrize("order", ["contiguous", "reversed", "broadcast", "strided", "random"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("is_store", [False, True])
def test_sectors_are_the_distinct_ones(buffer, known, order, width, is_store):
    count = max(1, width // 8)
    nbytes = width // count
    at = addresses(buffer, order, width)
    data = [np.zeros(32, UINT[max(nbytes, 2)]) for _ in range(count)]
    for mask in MASKS:
        with Bench(known.table()) as bench:
            access = bench.access("global", nbytes, count)
            # twice: the second time the allocation is remembered and the short path opens
            for _ in range(2):
                assert (bench.store if is_store else bench.load)(access, at, data, mask) == 0
            site = bench.site
            on = bin(mask).count("1")
            assert (site.requests, site.threads, site.bytes) == (2, 2 * on, 2 * on * width)
            assert site.sectors == 2 * sectors(at, width, mask)
            assert site.sectors_ideal == 2 * ideal_sectors(at, width, mask)


def test_a_misplaced_span_touches_one_sector_more(buffer, known):
    into = [np.zeros(32, np.uint32)]
    with Bench(known.table()) as bench:
        for _ in range(2):
            bench.load(bench.access("global", 4), buffer.ctypes.data + 16 + LANES * 4, into)
        assert (bench.site.sectors, bench.site.sectors_ideal) == (10, 8)


def wavefronts(offsets, width, mask=FULL):
    """The definition of a load, by brute force: passes of 32, 16 or 8 lanes, twice as many where
    lanes agree with the one next to them or two off; the deepest of 32 banks each."""
    lanes_per_pass = min(32, 128 // max(width, 4))
    active = [x for x in range(32) if mask >> x & 1]
    agree = [
        all(x ^ step not in active or offsets[x] == offsets[x ^ step] for x in active)
        for step in (1, 2)
    ]
    if any(agree):
        lanes_per_pass = min(32, 2 * lanes_per_pass)
    total = ideal = 0
    for start in range(0, 32, lanes_per_pass):
        lanes = [x for x in range(start, start + lanes_per_pass) if mask >> x & 1]
        words = {int(offsets[x]) // 4 + i for x in lanes for i in range(max(width // 4, 1))}
        depth = [sum(w % 32 == bank for w in words) for bank in range(32)]
        total += max(depth)
        ideal += -(-len(words) // 32)
    return total, ideal


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("order", ["contiguous", "broadcast", "column", "padded", "random"])
def test_shared_wavefronts_follow_the_definition(width, order):
    rng = np.random.default_rng(width)
    slots = {
        "contiguous": LANES * width,
        "broadcast": np.full(32, 64),
        "column": LANES * 128,
        "padded": LANES * (128 + width),
        "random": rng.integers(0, 8192 // width, 32) * width,
    }[order]
    count = max(1, width // 4)
    data = [np.zeros(32, UINT[max(2, width // count)]) for _ in range(count)]
    for mask in MASKS:
        with Bench(shared_bytes=8192) as bench:
            assert bench.load(bench.access("shared", width // count, count), slots, data, mask) == 0
            assert (bench.site.wavefronts, bench.site.wavefronts_ideal) == wavefronts(
                slots, width, mask
            )
            assert bench.site.sectors == 0


def test_known_shared_patterns():
    data = [np.zeros(32, np.uint32)]
    with Bench(shared_bytes=8192) as bench:
        for offsets, passes in [
            (LANES * 4, 1),
            (LANES * 128, 32),
            (LANES * 132, 1),
            (LANES * 8, 2),
        ]:
            before = bench.site.wavefronts
            bench.load(bench.access("shared", 4), offsets, data)
            assert bench.site.wavefronts - before == passes


def test_matrix_rows_take_one_wavefront_per_eight():
    with Bench(shared_bytes=8192) as bench:
        at = (LANES * 16).astype(np.uint64)
        rows = bench.lib.vg_shared_rows
        assert rows(bench.warp, 0, FULL, at.ctypes.data_as(pointers_type()), 16, 0) == 0
        assert (bench.site.requests, bench.site.wavefronts, bench.site.wavefronts_ideal) == (
            1,
            4,
            4,
        )
        at = (LANES * 128).astype(np.uint64)
        rows(bench.warp, 0, FULL, at.ctypes.data_as(pointers_type()), 16, 0)
        assert bench.site.wavefronts == 4 + 32


def pointers_type():
    import ctypes

    return ctypes.POINTER(ctypes.c_uint64)


def test_local_memory_is_interleaved():
    data = [np.zeros(32, np.uint32)]
    with Bench() as bench:
        bench.load(bench.access("local", 4), np.full(32, 8), data)
        assert (bench.site.sectors, bench.site.sectors_ideal) == (4, 4)
        bench.load(bench.access("local", 4), LANES % 16 * 4, data)  # a different word in every lane
        assert bench.site.sectors == 4 + 32


def test_unique_bytes_are_the_sectors_touched(buffer, known):
    data = [np.zeros(32, np.uint32)]
    table = known.table(counting=True)
    with Bench(table) as bench:
        for _ in range(3):
            bench.load(bench.access("global", 4), buffer.ctypes.data + LANES * 4, data)
        assert table.unique_bytes() == (128, 0)
        bench.load(bench.access("global", 4), buffer.ctypes.data + LANES * 128, data)
        assert table.unique_bytes() == (128 + 31 * 32, 0)
        bench.store(bench.access("global", 4), buffer.ctypes.data + 4 + LANES * 4, data)
        assert table.unique_bytes()[1] == 160


def test_counting_off_leaves_the_rows_alone(buffer, known):
    data = [np.zeros(32, np.uint32)]
    with Bench(known.table(), counting=False) as bench:
        for at in (buffer.ctypes.data + LANES * 4, buffer.ctypes.data + LANES * 8):
            bench.load(bench.access("global", 4), at, data)
        assert bench.site.requests == bench.site.sectors == 0


# --------------------------------------------------------------------------------------- atomics


def integer(op, old, x, y, bits, signed):
    wrap = (1 << bits) - 1

    def key(v):
        return v - (1 << bits) if signed and v >> (bits - 1) else v

    return {
        "add": lambda: (old + x) & wrap,
        "min": lambda: min(old, x, key=key),
        "max": lambda: max(old, x, key=key),
        "and": lambda: old & x,
        "or": lambda: old | x,
        "xor": lambda: old ^ x,
        "exch": lambda: x,
        "cas": lambda: y if old == x else old,
        "inc": lambda: 0 if old >= x else old + 1,
        "dec": lambda: x if old == 0 or old > x else old - 1,
    }[op]()


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ATOMICS)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_integer_atomics_in_lane_order(buffer, known, op, kind, parallel, space):
    bits, signed = int(kind[1:]), kind[0] == "s"
    size, dtype = bits // 8, UINT[bits // 8]
    rng = np.random.default_rng(ATOMICS[op])
    slots = rng.integers(0, 8, 32)
    x = rng.choice(np.array([0, 1, 2, 7, (1 << bits) - 1, 1 << (bits - 1)], dtype), 32)
    y = rng.integers(0, 1 << 30, 32).astype(dtype)
    old = np.zeros(32, dtype)
    with Bench(known.table(), parallel=parallel) as bench:
        home = bench.shared if space == "shared" else buffer
        place = home.view(dtype)[:8]
        place[:] = rng.choice(np.array([0, 1, 2, 5, (1 << bits) - 1], dtype), 8)
        model = [int(v) for v in place]
        base = 0 if space == "shared" else buffer.ctypes.data
        access = bench.access(space, size, atomic=ATOMICS[op], type=TYPES[kind])
        for mask in (FULL, 0x0F0F1234):
            assert bench.atomic(access, base + slots * size, [old], [x], [y], mask) == 0
            for lane in LANES[lanes_of(mask)]:
                slot = slots[lane]
                assert int(old[lane]) == model[slot]
                model[slot] = integer(op, model[slot], int(x[lane]), int(y[lane]), bits, signed)
            assert [int(v) for v in place] == model


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)]
)
def test_float_additions_go_one_by_one(buffer, known, kind, dtype):
    values = np.random.default_rng(1).standard_normal(32).astype(dtype)
    size = values.itemsize
    place = buffer.view(dtype)[:1]
    place[:] = 0.25
    old = np.zeros(32, dtype)
    with Bench(known.table()) as bench:
        access = bench.access("global", size, type=TYPES[kind])
        assert bench.atomic(access, np.full(32, buffer.ctypes.data), [old], [values]) == 0
    running = dtype(0.25)
    for lane in range(32):
        assert old[lane] == running
        running = dtype(running + values[lane])
    assert place[0] == running


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_additions(buffer, known, kind):
    torch = pytest.importorskip("torch")
    dtype = torch.float16 if kind == "f16x2" else torch.bfloat16
    x = torch.randn(64, generator=torch.Generator().manual_seed(3)).to(dtype)
    start = torch.randn(64, generator=torch.Generator().manual_seed(4)).to(dtype)
    buffer.view(np.uint32)[:32] = start.view(torch.int16).numpy().view(np.uint32)
    operand = x.view(torch.int16).numpy().view(np.uint32).copy()
    with Bench(known.table()) as bench:
        access = bench.access("global", 4, type=TYPES[kind])
        assert bench.atomic(access, buffer.ctypes.data + LANES * 4, None, [operand]) == 0
    want = (start + x).view(torch.int16).numpy().view(np.uint32)
    np.testing.assert_array_equal(buffer.view(np.uint32)[:32], want)


def test_global_float_addition_flushes_subnormals_and_shared_keeps_them(buffer, known):
    tiny = np.full(32, 1e-40, np.float32)
    buffer.view(np.float32)[:32] = 0
    with Bench(known.table()) as bench:
        bench.shared[:] = 0
        access = bench.access("global", 4, type=TYPES["f32"])
        bench.atomic(access, buffer.ctypes.data + LANES * 4, None, [tiny])
        bench.atomic(bench.access("shared", 4, type=TYPES["f32"]), LANES * 4, None, [tiny])
        assert (buffer.view(np.float32)[:32] == 0).all()
        np.testing.assert_array_equal(bench.shared.view(np.float32)[:32], tiny)


def test_sixteen_byte_compare_and_swap(buffer, known):
    place = buffer.view(np.uint64)[:2]
    place[:] = (5, 6)
    expected, new = np.zeros((32, 2), np.uint64), np.zeros((32, 2), np.uint64)
    expected[:] = (5, 6)
    new[:] = np.stack([LANES, LANES + 100], 1)
    old = np.zeros((32, 2), np.uint64)
    with Bench(known.table()) as bench:
        access = bench.access("global", 16, 1, 16, atomic=ATOMICS["cas"], type=TYPES["b128"])
        assert bench.atomic(access, np.full(32, buffer.ctypes.data), [old], [expected], [new]) == 0
    assert tuple(place) == (0, 100)
    assert tuple(old[0]) == (5, 6)
    assert (old[1:] == (0, 100)).all()


def test_sixteen_bit_compare_and_swap(buffer, known):
    buffer.view(np.uint16)[:32] = LANES
    expected, new, old = (np.zeros(32, np.uint16) for _ in range(3))
    expected[:] = LANES // 2 * 2
    new[:] = 1000
    with Bench(known.table()) as bench:
        access = bench.access("global", 2, atomic=ATOMICS["cas"], type=TYPES["u16"])
        assert bench.atomic(access, buffer.ctypes.data + LANES * 2, [old], [expected], [new]) == 0
    np.testing.assert_array_equal(old, LANES)
    np.testing.assert_array_equal(buffer.view(np.uint16)[:32], np.where(LANES % 2, LANES, 1000))


def test_vector_reductions(buffer, known):
    buffer.view(np.float32)[:128] = 1
    operands = [np.full(32, i, np.float32) for i in range(4)]
    with Bench(known.table()) as bench:
        access = bench.access("global", 4, 4, type=TYPES["f32"])
        assert bench.atomic(access, buffer.ctypes.data + LANES * 16, None, operands) == 0
    np.testing.assert_array_equal(buffer.view(np.float32)[:128].reshape(32, 4)[3], [1, 2, 3, 4])


def test_atomic_conflicts_are_counted(buffer, known):
    one = [np.ones(32, np.uint32)]
    with Bench(known.table()) as bench:
        access = bench.access("global", 4, type=TYPES["u32"])
        bench.atomic(access, np.full(32, buffer.ctypes.data), None, one)
        assert (bench.site.wavefronts, bench.site.wavefronts_ideal, bench.site.sectors) == (
            32,
            1,
            1,
        )
        bench.atomic(access, buffer.ctypes.data + LANES * 4, None, one)
        assert (bench.site.wavefronts, bench.site.sectors, bench.site.conflicts) == (33, 5, 31)


# ----------------------------------------------------------------------------- copies on the side


@pytest.mark.parametrize("width", [4, 8, 16])
def test_an_async_copy_shows_at_its_wait(buffer, known, width):
    with Bench(known.table(), shared_bytes=2048) as bench:
        bench.shared[:] = 0
        access = bench.access("global", width)
        args = (access, LANES * width, buffer.ctypes.data + LANES * width)
        assert bench.async_copy(*args) == 0
        bench.lib.vg_async_commit(bench.warp, FULL)
        assert not bench.shared.any()
        bench.lib.vg_async_wait_group(bench.warp, FULL, 1)
        assert not bench.shared.any()
        bench.lib.vg_async_wait_group(bench.warp, FULL, 0)
        np.testing.assert_array_equal(bench.shared[: 32 * width], buffer[: 32 * width])
        assert bench.site.sectors == width
        assert bench.site.wavefronts == max(1, width // 4)


def test_groups_complete_in_order(buffer, known):
    with Bench(known.table()) as bench:
        bench.shared[:] = 0
        for stage in range(3):
            at = buffer.ctypes.data + stage * 128 + LANES * 4
            bench.async_copy(bench.access("global", 4), stage * 128 + LANES * 4, at)
            bench.lib.vg_async_commit(bench.warp, FULL)
        bench.lib.vg_async_wait_group(bench.warp, 0xFFFF, 1)
        np.testing.assert_array_equal(bench.shared[:64], buffer[:64])
        np.testing.assert_array_equal(bench.shared[128:192], buffer[128:192])
        assert not bench.shared[64:128].any()  # lanes that did not wait
        assert not bench.shared[256:].any()
        bench.async_copy(
            bench.access("global", 4), 384 + LANES * 4, buffer.ctypes.data + 384 + LANES * 4
        )
        bench.lib.vg_async_wait_all(bench.warp, FULL)  # also what is not committed
        np.testing.assert_array_equal(bench.shared[:512], buffer[:512])


def test_short_sources_are_filled_with_zeros(buffer, known):
    buffer[:512] |= 1
    sizes, ignore = LANES % 17, (LANES == 31).astype(int)
    with Bench(known.table()) as bench:
        bench.shared[:] = 0xFF
        args = (bench.access("global", 16), LANES * 16, buffer.ctypes.data + LANES * 16)
        assert bench.async_copy(*args, FULL, sizes, ignore) == 0
        bench.lib.vg_async_wait_all(bench.warp, FULL)
        got, want = bench.shared[:512].reshape(32, 16), buffer[:512].reshape(32, 16).copy()
        for lane in LANES:
            want[lane, 0 if ignore[lane] else sizes[lane] :] = 0
        np.testing.assert_array_equal(got, want)


# ---------------------------------------------------------------------------------------- faults


def fault(known, run, **options):
    with Bench(known.table(), **options) as bench:
        assert run(bench) != 0
        return describe(bench.fault, known, "k", lambda site: Place("k.cu", 17, 40))


def data4():
    return [np.zeros(32, np.uint32)]


def test_one_past_the_end_says_so(buffer, known):
    at = buffer.ctypes.data + 8192 - 31 * 4 + LANES * 4
    found = fault(known, lambda b: b.load(b.access("global", 4), at, data4()))
    assert found.message == (
        "thread (31,0,0) of block (0,0,0) reads 4 bytes at x[2048], 0 bytes past its end "
        "(2048 elements × 4 bytes); usual cause: the index is not checked against n"
    )
    assert (found.kind, found.tensor, found.index, found.source) == (
        "out-of-bounds",
        "x",
        2048,
        "k.cu:17",
    )
    assert found.error().source == "k.cu:17"
    assert found.error().details["index"] == 2048


def test_before_the_start_says_so(buffer, known):
    found = fault(
        known, lambda b: b.store(b.access("global", 4), buffer.ctypes.data - 4 + LANES * 4, data4())
    )
    assert "writes 4 bytes at x[-1], 4 bytes before its start" in found.message
    assert found.index == -1


def test_nothing_is_written_by_a_faulting_store(buffer, known):
    before = buffer.copy()
    fault(
        known,
        lambda b: b.store(
            b.access("global", 4), buffer.ctypes.data + 8192 - 64 + LANES * 4, data4()
        ),
    )
    np.testing.assert_array_equal(buffer, before)


def test_a_wild_address(buffer, known):
    found = fault(known, lambda b: b.load(b.access("global", 4), np.full(32, 1 << 45), data4()))
    assert "which is in no tensor" in found.message
    assert "(and 31 more threads of its warp)" in found.message


def test_null_and_null_plus(buffer, known):
    found = fault(known, lambda b: b.load(b.access("global", 4), LANES * 4, data4(), 0xFFFFFF00))
    assert found.kind == "null-pointer"
    assert "reads 4 bytes through a null pointer plus 32 bytes" in found.message


def test_null_is_caught_without_a_table():
    with Bench() as bench:
        assert bench.load(bench.access("global", 4), LANES * 4, data4())
        assert FAULT_KINDS[bench.fault.kind - 1] == "null-pointer"


def test_misaligned_vectors(buffer, known):
    four = [np.zeros(32, np.uint32) for _ in range(4)]
    found = fault(
        known, lambda b: b.load(b.access("global", 4, 4), buffer.ctypes.data + 4 + LANES * 16, four)
    )
    assert found.kind == "misaligned"
    assert "reads 16 bytes at x[1], byte 4, not a multiple of 16" in found.message


def test_a_readonly_tensor(buffer):
    memory = Memory()
    memory.register(buffer.ctypes.data, 8192, "w", True, element_bytes=4)
    found = fault(
        memory, lambda b: b.store(b.access("global", 4), buffer.ctypes.data + LANES * 4, data4())
    )
    assert found.kind == "readonly-write"
    assert "writes 4 bytes at w[0], which is read-only" in found.message


@pytest.mark.parametrize(("space", "owner"), [("shared", "the block's"), ("local", "the thread's")])
def test_windows_have_ends(known, space, owner):
    options = {"shared_bytes": 256, "local_bytes": 256}
    found = fault(known, lambda b: b.load(b.access(space, 4), LANES * 4 + 132, data4()), **options)
    assert f"reads 4 bytes at {space} offset 256, 0 bytes past the end of {owner}" in found.message
    before = fault(known, lambda b: b.load(b.access(space, 4), LANES * 4 - 8, data4()), **options)
    assert f"{space} offset -8, 8 bytes before the start" in before.message


def test_a_generic_address_past_shared_memory_is_caught(known):
    def run(bench):
        return bench.load(
            bench.access("generic", 4), bench.shared_address + 1024 - 64 + LANES * 4, data4()
        )

    assert fault(known, run).kind == "out-of-bounds"


def test_two_tensors_in_one_access_are_fine(buffer, known):
    other = empty(128)
    other.view(np.uint32)[:] = LANES
    known.register(other.ctypes.data, 128, "y")
    at = np.where(LANES % 2, other.ctypes.data, buffer.ctypes.data) + LANES * 4
    into = data4()
    with Bench(known.table()) as bench:
        assert bench.load(bench.access("global", 4), at, into) == 0
    np.testing.assert_array_equal(into[0], np.where(LANES % 2, LANES, buffer.view(np.uint32)[:32]))


# ------------------------------------------------------------------------------ the Python side


def test_empty_is_aligned_and_guarded():
    one, two = empty(100), empty(100)
    assert one.ctypes.data % ALIGNMENT_BYTES == two.ctypes.data % ALIGNMENT_BYTES == 0
    assert abs(one.ctypes.data - two.ctypes.data) > 4096
    array = np.arange(12.0).reshape(3, 4).T
    np.testing.assert_array_equal(copy_of(array), array)
    assert copy_of(array).flags.c_contiguous


def test_views_are_merged_and_named_by_the_smallest():
    memory = Memory()
    memory.register(1024, 1000, "base", True)
    memory.register(1124, 100, "view", True)
    memory.register(1900, 500, "other")
    memory.register(4096, 0, "nothing")
    rows = memory.table().rows
    assert [(int(r["begin"]), int(r["end"]), int(r["readonly"])) for r in rows] == [(1024, 2400, 0)]
    assert memory.lookup(1130).name == "view"
    assert memory.lookup(1030).name == "base"
    assert memory.lookup(2400) is None
    assert memory.nearest(2500).name == "other"
    memory.forget(1900)
    assert int(memory.table().rows[0]["end"]) == 2024


def test_nonsense_is_refused():
    memory = Memory()
    with pytest.raises(UsageError):
        memory.register(0, 4, "null")
    with pytest.raises(UsageError):
        memory.register(64, -1, "negative")
    with pytest.raises(UsageError):
        memory.forget(64)
