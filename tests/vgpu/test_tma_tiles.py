"""Tensor copies of TMA against an oracle of the manual's figures: tiles, swizzles, fill, im2col."""
# SPDX-License-Identifier: Apache-2.0

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tma_oracle as oracle

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of
from warpsmith.vgpu.tensormap import Im2col, TensorMap

pytestmark = pytest.mark.virtual
DTYPES = {"uint8": "u1", "uint16": "u2", "int32": "i4", "uint64": "u8", "float16": "f2", "float32": "f4",
          "float64": "f8", "bfloat16": "u2", "tfloat32": "f4"}  # fmt: skip
BLOCK = (32,)


@cache
def module(ptx: str) -> vgpu.Module:
    return vgpu.load(ptx)


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 120, shape).astype(DTYPES.get(dtype, dtype))
    return raw


def map_of(array, dtype, box, **options) -> TensorMap:
    if "element_strides" in options:
        options["element_strides"] = options["element_strides"][::-1]
    strides = array.strides[-2::-1] if array.ndim > 1 else ()
    return TensorMap(dtype, array.shape[::-1], strides, tuple(box[::-1]), **options)


def numbers(at, count=5, dtype=np.int32):
    return np.array([*at, *[0] * (count - len(at))], dtype).tobytes()


def load(array, tensor_map, at, *, ptx=None, offsets=(), base=0, **options):
    """Copy one box and give the bytes of shared memory, and the launch."""
    device, nbytes = copy_of(array), tensor_map.box_bytes
    out = copy_of(np.full(nbytes, 0xEE, np.uint8))
    memory = vgpu.Memory()
    memory.register(
        device.ctypes.data, device.nbytes, "tensor", True, element_bytes=device.itemsize
    )
    memory.register(out.ctypes.data, out.nbytes, "out")
    ptx = ptx or oracle.load_kernel(array.ndim)
    args = [tensor_map.encode(device.ctypes.data), out.ctypes.data, nbytes, numbers(at[::-1]),
            numbers(offsets, 4, np.int16), base]  # fmt: skip
    result = module(ptx).launch("load", (1,), BLOCK, args, memory=memory,
                                shared_bytes=-(-(base + nbytes) // 1024) * 1024, **options)  # fmt: skip
    return out, result


def right(array, tensor_map, at, want, **options):
    got, result = load(array, tensor_map, at, **options)
    assert result.fault is None, result.fault.message
    np.testing.assert_array_equal(got, want)


SHAPES = {1: ((100,), (32,)), 2: ((20, 48), (8, 16)), 3: ((5, 9, 32), (2, 4, 16)),
          4: ((3, 4, 5, 16), (2, 2, 3, 16)), 5: ((3, 3, 4, 5, 16), (2, 1, 2, 3, 16))}  # fmt: skip


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_tiles_of_every_rank_over_every_edge(rank, dtype):
    shape, box = SHAPES[rank]
    array = values(shape, dtype)
    tensor_map = map_of(array, dtype, box)
    places = oracle.corners(shape, box)
    rng = np.random.default_rng(rank)
    for i in rng.permutation(len(places))[:40]:
        at = places[i]
        want = oracle.image(oracle.tile(array, box, at, (1,) * rank), 0)
        right(array, tensor_map, at, want)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("dtype", DTYPES)
def test_swizzles(swizzle, dtype):
    """Full rows and rows of half the swizzle, from bases that are and are not multiples of 1024."""
    item = np.dtype(DTYPES[dtype]).itemsize
    for row, base in ((swizzle, 0), (swizzle, 384), (swizzle // 2, 1024)):
        array = values((40, 256), dtype)
        box = (24, row // item)
        want = oracle.image(oracle.tile(array, box, (3, 16), (1, 1)), swizzle, base)
        right(array, map_of(array, dtype, box, swizzle=swizzle), (3, 16), want, base=base)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_fill_outside_of_the_tensor(dtype, fill):
    array, box, at = values((6, 16), dtype, 1), (8, 16), (2, 8)
    picked = oracle.tile(array, box, at, (1, 1), fill)
    if dtype == "bfloat16" and fill == "nan":
        picked[oracle.box_indices(array.shape, box, at, (1, 1))[1] == 0] = 0x7FFF
    right(array, map_of(array, dtype, box, fill=fill), at, oracle.image(picked, 0))


def test_element_strides_skip_on_all_axes_but_the_last():
    array, box, steps = values((20, 30, 16), "float32"), (5, 9, 8), (2, 3, 1)
    tensor_map = map_of(array, "float32", box, element_strides=steps)
    assert tensor_map.box_bytes == 3 * 3 * 8 * 4
    for at in ((0, 0, 0), (17, 25, 4), (-3, -2, 12)):
        right(array, tensor_map, at, oracle.image(oracle.tile(array, box, at, steps), 0))


def test_subnormals_are_flushed_where_the_type_says_so():
    array = np.array([[1e-40, -1e-40, 1.5, 0]] * 4, np.float32)
    flushed = np.array([[0.0, -0.0, 1.5, 0]] * 4)
    for dtype, want in (("float32", array), ("float32_ftz", flushed)):
        tensor_map = map_of(array, dtype, (4, 4))
        right(array, tensor_map, (0, 0), want.astype(np.float32).view(np.uint8).reshape(-1))


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("step", [1, 2])
def test_im2col(rank, step):
    """A 3-wide convolution with a border of 1: every filter tap, from every kind of pixel."""
    shape = {3: (3, 9, 24), 4: (2, 6, 7, 24), 5: (2, 3, 4, 5, 24)}[rank]
    array, spatial = values(shape, "float16"), rank - 2
    lower, upper = (-1,) * spatial, (-1,) * spatial
    walk = Im2col(lower, upper, 16, 20)
    steps = (1, *(step,) * spatial, 1)
    tensor_map = TensorMap(
        "float16", shape[::-1], array.strides[-2::-1], (), steps[::-1], im2col=walk
    )
    ptx = oracle.load_kernel(rank, "im2col", offsets=spatial)
    for at, offsets in (((0, *(-1,) * spatial, 0), (0,) * spatial), ((0, *(1,) * spatial, 8), (2,) * spatial),
                        ((1, *(0,) * spatial, 16), (1,) * spatial)):  # fmt: skip
        want = oracle.pixels(array, lower, upper, 16, 20, at, offsets, steps)
        right(array, tensor_map, at, oracle.image(want, 0), ptx=ptx, offsets=offsets)


def test_gather4_reads_four_rows():
    array = values((30, 64), "float32")
    tensor_map = map_of(array, "float32", (1, 16))
    ptx = (
        oracle.load_kernel(5, "tile::gather4")
        .replace(".tensor.5d", ".tensor.2d")
        .replace("sm_90a", "sm_100a")
    )
    device, out = copy_of(array), copy_of(np.zeros(256, np.uint8))
    memory = vgpu.Memory()
    memory.register(device.ctypes.data, device.nbytes, "tensor")
    memory.register(out.ctypes.data, out.nbytes, "out")
    args = [
        tensor_map.encode(device.ctypes.data),
        out.ctypes.data,
        256,
        numbers((16, 3, 29, 0, 30)),
        bytes(8),
        0,
    ]
    result = module(ptx).launch("load", (1,), BLOCK, args, memory=memory, shared_bytes=1024)
    assert result.fault is None
    want = np.concatenate([array[[3, 29, 0], 16:32], np.zeros((1, 16), np.float32)])
    np.testing.assert_array_equal(out.view(np.float32).reshape(4, 16), want)


# ------------------------------------------------------------------------------------- stores


def store(array, tensor_map, at, source, ptx=None):
    device, bytes_ = copy_of(array), copy_of(source.view(np.uint8).reshape(-1))
    memory = vgpu.Memory()
    memory.register(device.ctypes.data, device.nbytes, "tensor")
    memory.register(bytes_.ctypes.data, bytes_.nbytes, "source", True)
    args = [
        tensor_map.encode(device.ctypes.data),
        bytes_.ctypes.data,
        bytes_.nbytes,
        numbers(at[::-1]),
    ]
    ptx = ptx or oracle.store_kernel(array.ndim)
    result = module(ptx).launch("store", (1,), BLOCK, args, memory=memory,
                                shared_bytes=-(-bytes_.nbytes // 1024) * 1024)  # fmt: skip
    return device, result


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("commit", [True, False])
def test_stores_write_what_lies_in_the_tensor_and_nothing_else(swizzle, commit):
    """Without a commit the copy lands at the block's end at the latest."""
    array, box = values((20, 40), "float16"), (8, (swizzle or 32) // 2)
    tensor_map = map_of(array, "float16", box, swizzle=swizzle)
    for at in ((0, 0), (15, 32), (-3, -8), (30, 0)):
        tile = values(box, "float16", 7) + np.float16(500)
        want = array.copy()
        grid, inside = oracle.box_indices(array.shape, box, at, (1, 1))
        want[tuple(g[inside] for g in grid)] = tile[inside]
        got, result = store(
            array,
            tensor_map,
            at,
            oracle.image(tile, swizzle),
            oracle.store_kernel(2, commit=commit),
        )
        assert result.fault is None
        np.testing.assert_array_equal(got, want)


REDUCTIONS = {
    "add": (("int32", np.add), ("uint64", np.add), ("float16", np.add), ("float32", np.add), ("float64", np.add)),
    "min": (("int32", np.minimum), ("float16", np.minimum), ("int64", np.minimum)),
    "max": (("uint32", np.maximum), ("float16", np.maximum), ("int64", np.maximum)),
    "and": (("uint32", np.bitwise_and), ("uint64", np.bitwise_and)),
    "or": (("int32", np.bitwise_or),), "xor": (("uint64", np.bitwise_xor),),
    "inc": (("uint32", lambda old, x: np.where(old >= x, 0, old + 1)),),
    "dec": (("uint32", lambda old, x: np.where((old == 0) | (old > x), x, old - 1)),),
}  # fmt: skip


@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions(operation):
    for dtype, combine in REDUCTIONS[operation]:
        array, tile = values((12, 16), dtype), values((8, 8), dtype, 3)
        tensor_map = map_of(array, dtype, (8, 8))
        want = array.copy()
        want[6:12, 10:16] = combine(array[6:12, 10:16], tile[:6, :6]).astype(array.dtype)
        got, result = store(
            array, tensor_map, (6, 10), tile, oracle.store_kernel(2, operation=operation)
        )
        assert result.fault is None
        np.testing.assert_array_equal(got, want)


def test_a_reduction_that_the_type_does_not_have_is_a_fault():
    array = values((12, 16), "float16")
    _, result = store(array, map_of(array, "float16", (8, 8)), (0, 0), values((8, 8), "float16"),
                      oracle.store_kernel(2, operation="xor"))  # fmt: skip
    assert result.fault.kind == "illegal-access"
    assert "xor" in result.fault.message


# -------------------------------------------------------------------------- counters and faults


def test_counters_name_requests_bytes_and_sectors():
    array = values((64, 64), "float32")
    _, result = load(array, map_of(array, "float32", (16, 32), swizzle=128), (8, 32))
    counters = result.counters
    assert counters.bulk_load_requests == 1
    assert counters.bulk_load_bytes == 16 * 128
    assert counters.bulk_load_sectors == 16 * 4
    _, result = load(
        array, map_of(array, "float32", (16, 32)), (60, 48)
    )  # 4 x 16 elements are inside
    assert result.counters.bulk_load_bytes == 4 * 64


def test_a_forgotten_wait_shows():
    """Shared memory is what it was before: the copy lands when somebody waits for it."""
    array = values((20, 48), "float32")
    got, result = load(
        array, map_of(array, "float32", (8, 16)), (0, 0), ptx=oracle.load_kernel(2, wait=False)
    )
    assert result.fault is None
    assert (got == 0xFF).all()
    found = load(array, map_of(array, "float32", (8, 16)), (0, 0), ptx=oracle.load_kernel(2, wait=False),
                 checks=vgpu.Checks.all())[1]  # fmt: skip
    assert found.fault is not None


def test_a_tensor_larger_than_its_memory_is_out_of_bounds():
    array = values((20, 48), "float32")
    tensor_map = TensorMap("float32", (48, 40), (192,), (16, 8))
    _, result = load(array, tensor_map, (16, 0))
    assert result.fault.kind == "out-of-bounds"
    assert "tensor[960]" in result.fault.message
    assert result.fault.ptx_line > 0


SPOILED = {
    "nothing encoded": lambda raw: bytes(128),
    "2 dimensions, the instruction names 3": lambda raw: raw,
    "not a multiple of 16": lambda raw: raw[:8] + (100).to_bytes(8, "little") + raw[16:],
    "elements in dimension 0, allowed are 1 to 256": lambda raw: raw[:60] + (300).to_bytes(4, "little") + raw[64:],
    "element stride is 9": lambda raw: raw[:81] + b"\x09" + raw[82:],
    "element stride is 0 in dimension 1": lambda raw: raw[:81] + b"\0" + raw[82:],
    "element stride is 0 in dimension 0": lambda raw: raw[:80] + b"\0" + raw[81:],
    "has 255 dimensions": lambda raw: raw[:85] + b"\xff" + raw[86:],
    "element type is one of sm_100": lambda raw: raw[:86] + b"\x0e" + raw[87:],
    "none of 0, 32, 64 and 128": lambda raw: raw[:88] + b"\x04" + raw[89:],
    "one for im2col": lambda raw: raw[:90] + b"\x01" + raw[91:],
    "interleaved": lambda raw: raw[:87] + b"\x01" + raw[88:],
}  # fmt: skip


@pytest.mark.parametrize("words", SPOILED)
def test_a_map_that_cannot_be_used_is_a_fault_with_its_line(words):
    array = copy_of(values((20, 48), "float32"))
    raw = SPOILED[words](map_of(array, "float32", (8, 16)).encode(array.ctypes.data))
    out, memory = copy_of(np.zeros(512, np.uint8)), vgpu.Memory()
    memory.register(array.ctypes.data, array.nbytes, "tensor")
    memory.register(out.ctypes.data, out.nbytes, "out")
    ptx = oracle.load_kernel(3 if "names 3" in words else 2)
    args = [raw, out.ctypes.data, 512, numbers((0, 0)), bytes(8), 0]
    fault = module(ptx).launch("load", (1,), BLOCK, args, memory=memory, shared_bytes=1024).fault
    assert fault.kind == "illegal-access"
    assert words in fault.message
    assert "cp.async.bulk.tensor" in ptx.splitlines()[fault.ptx_line - 1]


def test_maps_of_any_bytes_are_faults_or_copies_and_never_more():
    """Random fields in a map that says it is one: the process survives, and what is wrong is named."""
    rng, kinds = np.random.default_rng(5), set()
    array, out = copy_of(values((20, 48), "float32")), copy_of(np.zeros(512, np.uint8))
    memory = vgpu.Memory()
    memory.register(array.ctypes.data, array.nbytes, "tensor")
    memory.register(out.ctypes.data, out.nbytes, "out")
    good = np.frombuffer(map_of(array, "float32", (8, 16)).encode(array.ctypes.data), np.uint8)
    prefetch = oracle.load_kernel(2, wait=False).replace(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\n    [%r3], [%d2, {%c0, %c1}], [%r7]",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d2, {%c0, %c1}]",
    )
    assert "prefetch" in prefetch
    for i in range(300):
        raw = good.copy()
        at = rng.choice(108, rng.integers(1, 4))
        raw[at] = rng.integers(0, 256, len(at))
        args = [raw.tobytes(), out.ctypes.data, 512, numbers((0, 0)), bytes(8), 0]
        ptx = prefetch if i % 2 else oracle.load_kernel(2)
        result = module(ptx).launch(
            "load", (1,), BLOCK, args, memory=memory, shared_bytes=1024, max_seconds=5
        )
        kinds.add(result.fault.kind if result.fault else "")
    assert kinds <= {
        "",
        "illegal-access",
        "misaligned",
        "out-of-bounds",
        "null-pointer",
        "deadlock",
    }
    assert {"", "illegal-access", "out-of-bounds"} <= kinds


def test_misaligned_ends():
    array = values((20, 48), "float32")
    _, result = load(array, map_of(array, "float32", (8, 16)), (0, 0), base=64)
    assert result.fault.kind == "misaligned"
    assert "128" in result.fault.message
