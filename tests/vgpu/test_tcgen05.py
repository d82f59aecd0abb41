"""tcgen05 against an oracle in numpy, written from the manual's figures of layouts and descriptors."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_floats import decode, encode
from tensor_memory import issue, run

pytestmark = pytest.mark.virtual
RNG = np.random.default_rng(7)


def words(*shape):
    return RNG.integers(0, 1 << 32, shape, dtype=np.uint32)


def nothing(blocks=1):
    return np.zeros((blocks, 1024), np.uint8)


# ------------------------------------------------------------------------------------ ld and st
# The figures show a matrix fragment as 8 x (…) pieces: which lane and register hold each cell.


def fragment(shape, repeat):
    """cells[lane][register] = (row, column), by tiling the figure of .x1 to the right."""
    cells = {}
    if shape == "32x32b":
        return {(l, j): (l, j) for l in range(32) for j in range(repeat)}  # noqa: E741
    if shape == "16x32bx2":  # the second half of the lanes: the other 32-bit part
        return {(l, j): (l % 16, (j, l // 16)) for l in range(32) for j in range(repeat)}  # noqa: E741
    width = int(shape[3:-1]) // 32  # 32-bit columns of .x1
    each = width // 2
    for row in range(16):
        for column in range(width):
            upper, inner = divmod(row, 8)
            if shape == "16x64b":  # lanes 0 1 of a quad hold the upper rows, 2 3 the lower
                lane, register = 4 * inner + 2 * upper + column, 0
            elif shape == "16x128b":
                lane, register = 4 * inner + column, upper
            else:
                lane, register = 4 * inner + column // 2, 2 * upper + column % 2
            for x in range(repeat):
                cells[lane, each * x + register] = (row, width * x + column)
    return cells


MOVES = [("32x32b", 1), ("32x32b", 16), ("32x32b", 128), ("16x64b", 1), ("16x64b", 8), ("16x128b", 1),
         ("16x128b", 4), ("16x256b", 1), ("16x256b", 8), ("16x32bx2", 1), ("16x32bx2", 16)]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("shape", "repeat"), MOVES, ids=[f"{s}.x{n}" for s, n in MOVES])
def test_loads_and_stores(shape, repeat, packed):
    each = {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    count, half, columns = each * repeat, 96, 256 if packed or repeat == 128 else 128
    lower = 0 if shape == "32x32b" else 16  # the second 16 lanes of each warp
    registers = ", ".join(f"%r{100 + i}" for i in range(count))
    spelled = f"sync.aligned.{shape}.x{repeat}"
    split = f", {half}" if shape == "16x32bx2" else ""
    where = f"[%r9+{lower << 16}]"
    stored = "\n".join(f"  xor.b32 %r{100 + i}, %r{100 + i}, 0x5a5a5a5a;" for i in range(count))
    saved = "\n".join(f"  st.global.u32 [%rd6+{4 * i}], %r{100 + i};" for i in range(count))
    body = f"""  tcgen05.ld.{spelled}{".pack::16b" if packed else ""}.b32 {{{registers}}}, {where}{split};
  tcgen05.wait::ld.sync.aligned;
  mad.wide.u32 %rd6, %r1, {4 * count}, %rd4;
{saved}
{stored}
  tcgen05.st.{spelled}{".unpack::16b" if packed else ""}.b32 {where}{split}, {{{registers}}};
  tcgen05.wait::st.sync.aligned;"""
    image = words(1, 128, columns)
    out, got = run(body, image, nothing(), 128 * count)
    want_read, want_image = np.zeros((128, count), np.uint32), image[0].copy()
    for warp in range(4):
        for (lane, register), (row, column) in fragment(shape, repeat).items():
            row += 32 * warp + lower
            if isinstance(column, tuple):
                column, base = column[0], half * column[1]
            else:
                base = 0
            if packed:
                low, high = image[0, row, base + 2 * column], image[0, row, base + 2 * column + 1]
                value = (low & 0xFFFF) | high << np.uint32(16)
                new = value ^ 0x5A5A5A5A
                want_image[row, base + 2 * column] = new & 0xFFFF
                want_image[row, base + 2 * column + 1] = new >> np.uint32(16)
            else:
                value = image[0, row, base + column]
                want_image[row, base + column] = value ^ 0x5A5A5A5A
            want_read[32 * warp + lane, register] = value
    assert np.array_equal(got.reshape(128, count), want_read)
    assert np.array_equal(out[0], want_image)


# --------------------------------------------------------------------------------- descriptors


def place(values, mode, mn_major):
    """(image in shared memory, descriptor) of a matrix of bytes [rows, 32 bytes of depth], or of
    elements [rows, depth, bytes] that lies with its rows along the fast axis.

    The canonical layouts of the manual: core matrices of 8 x 16 bytes; a swizzle of 32, 64 or 128
    bytes exchanges 16-byte columns by the row inside its pattern of 8 rows.
    """
    span = {0: 16, 6: 32, 4: 64, 2: 128}[mode]
    image = np.zeros(64 * 1024, np.uint8)
    start = 1024
    rows = values.shape[0]

    def put(row, byte, base, data):
        """16 bytes at column `byte` of row `row` of a pattern."""
        at = base + row * span + byte
        if mode:
            at ^= (at >> 7 & (span // 16 - 1)) << 4
        image[at : at + 16] = data

    if not mn_major:
        data = values.reshape(rows, -1)
        if mode:
            stride, leading = 8 * span, 16
            for row in range(rows):
                for c in range(0, data.shape[1], 16):
                    put(row % 8, c, start + row // 8 * stride, data[row, c : c + 16])
        else:
            leading, stride = 128, 128 * (data.shape[1] // 16)
            for row in range(rows):
                for c in range(data.shape[1] // 16):
                    put(
                        row % 8,
                        0,
                        start + row // 8 * stride + c * leading,
                        data[row, 16 * c : 16 * c + 16],
                    )
    else:
        depth, size = values.shape[1], values.shape[2]
        lines = values.transpose(1, 0, 2).reshape(depth, rows * size)  # a line is one depth
        patterns = rows * size // span
        if mode:
            leading = 8 * span * (depth // 8)  # from one pattern along the rows to the next
            stride = 8 * span  # from 8 depths to the next
            for k in range(depth):
                for c in range(0, rows * size, 16):
                    put(
                        k % 8,
                        c % span,
                        start + c // span * leading + k // 8 * stride,
                        lines[k, c : c + 16],
                    )
        else:
            stride, leading = 128, 128 * patterns
            for k in range(depth):
                for c in range(patterns):
                    put(
                        k % 8,
                        0,
                        start + c * stride + k // 8 * leading,
                        lines[k, 16 * c : 16 * c + 16],
                    )
    descriptor = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | mode << 61
    return image, descriptor


# ------------------------------------------------------------------------------------- products

KINDS = {  # kind -> element types by their code in the instruction descriptor
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
}
BYTES = {"f16": 2, "bf16": 2, "tf32": 4}


def matrix(name, rows, depth):
    """(values, bytes [rows, depth, size]) of random elements; 4 and 6 bits packed to 16 in 16 bytes."""
    if name in ("u8", "s8"):
        values = RNG.integers(-128, 128, (rows, depth)) if name == "s8" else RNG.integers(0, 256, (rows, depth))  # fmt: skip
        return values.astype(float), (values & 255).astype(np.uint8)[:, :, None]
    values, codes = encode(name, RNG.standard_normal((rows, depth)))
    if name in BYTES:
        return values, codes.astype(f"<u{BYTES[name]}").view(np.uint8).reshape(rows, depth, -1)
    bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(name, 8)
    return values, pack(codes, bits)[:, :, None]


def pack(codes, bits):
    """Groups of 16 elements: `bits` each, in the first bytes of 16."""
    rows, depth = codes.shape
    out = np.zeros((rows, depth), np.uint8)
    for row in range(rows):
        for group in range(depth // 16):
            number = sum(
                int(c) << bits * i for i, c in enumerate(codes[row, 16 * group : 16 * group + 16])
            )
            out[row, 16 * group : 16 * group + 16] = list(number.to_bytes(16, "little"))
    return out


def lanes_of(m):
    """Lane of each row of D: all 128, or 16 of every warp's 32."""
    return np.arange(m) if m != 64 else np.arange(64) // 16 * 32 + np.arange(64) % 16


PRODUCTS = [
    ("f16", 0, 0, 128, 64, 2, 0, 0, 1), ("f16", 1, 1, 64, 24, 4, 0, 0, 1), ("f16", 0, 1, 128, 16, 6, 0, 0, 1),
    ("f16", 0, 0, 128, 32, 0, 0, 0, 1), ("f16", 0, 0, 128, 64, 2, 1, 0, 1), ("f16", 1, 0, 64, 64, 2, 0, 1, 1),
    ("f16", 0, 0, 128, 64, 4, 1, 1, 1), ("f16", 0, 0, 128, 64, 0, 1, 1, 1), ("f16", 0, 0, 128, 32, 2, 0, 0, 0),
    ("f16", 0, 0, 128, 256, 2, 0, 0, 1), ("tf32", 2, 2, 128, 32, 2, 0, 0, 1), ("tf32", 2, 2, 64, 8, 0, 0, 0, 1),
    ("f8f6f4", 0, 1, 128, 32, 2, 0, 0, 1), ("f8f6f4", 5, 0, 64, 32, 4, 0, 0, 1), ("f8f6f4", 3, 4, 128, 16, 2, 0, 0, 1),
    ("f8f6f4", 0, 0, 128, 128, 2, 1, 1, 1), ("f8f6f4", 1, 5, 128, 16, 0, 0, 0, 0), ("i8", 1, 0, 128, 32, 2, 0, 0, 2),
]  # fmt: skip
"""kind, code of A, code of B, M, N, swizzle mode, A and B along rows, code of D's type"""


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: "-".join(map(str, c)))
@pytest.mark.parametrize("enable", [0, 1])
def test_products(case, enable):
    kind, ca, cb, m, n, mode, ma, mb, cd = case
    depth = {"f16": 16, "tf32": 8}.get(kind, 32)
    (a, bytes_a), (b, bytes_b) = (matrix(KINDS[kind][c], r, depth) for c, r in ((ca, m), (cb, n)))
    image_a, at_a = place(bytes_a, mode, ma)
    image_b, at_b = place(bytes_b, mode, mb)
    shared = np.concatenate([image_a[: 40 << 10], image_b[: 40 << 10]])[None]
    at_b += (40 << 10) >> 4
    columns = max(32, 1 << (n - 1).bit_length())
    if cd == 2:
        before = RNG.integers(-1000, 1000, (128, columns)).astype(float)
        image = before.astype(np.int32).view(np.uint32)
    else:
        before, codes = encode("f16" if cd == 0 else "f32", RNG.standard_normal((128, columns)))
        image = codes.astype(np.uint32)
    descriptor = cd << 4 | ca << 7 | cb << 10 | ma << 15 | mb << 16 | n >> 3 << 17 | m >> 4 << 24
    body = issue(f"""  mov.u64 %rd7, {at_a}; mov.u64 %rd8, {at_b}; mov.u32 %r12, {descriptor};
  cvt.u64.u32 %rd9, %r10; shr.u64 %rd9, %rd9, 4; add.u64 %rd7, %rd7, %rd9; add.u64 %rd8, %rd8, %rd9;
  setp.ne.u32 %p7, {enable}, 0;
  tcgen05.mma.cta_group::1.kind::{kind} [%r8], %rd7, %rd8, %r12, %p7;""")  # fmt: skip
    out, _ = run(body, image[None], shared)
    lanes, want = lanes_of(m), before.copy()
    want[lanes, :n] = a @ b.T + enable * before[lanes, :n]
    if cd == 2:
        assert np.array_equal(out[0].view(np.int32), want.astype(np.int32))
        return
    got = decode("f16" if cd == 0 else "f32", out[0])
    tolerance = 2e-2 if cd == 0 else 1e-4
    np.testing.assert_allclose(
        got, want, rtol=tolerance, atol=tolerance * np.abs(a).max() * np.abs(b).max()
    )
    touched = np.zeros((128, columns), bool)
    touched[lanes, :n] = True
    assert np.array_equal(out[0][~touched], image[~touched])


def test_a_in_tensor_memory_disabled_lanes_and_scaled_input():
    a, bytes_a = matrix("f16", 128, 16)
    b, bytes_b = matrix("f16", 32, 16)
    shared, at_b = place(bytes_b, 2, 0)
    before = RNG.standard_normal((128, 64)).astype(np.float32)
    image = before.view(np.uint32).copy()
    image[:, 40:48] = bytes_a.reshape(128, 32).view("<u4")
    descriptor = 1 << 4 | 32 >> 3 << 17 | 128 >> 4 << 24
    body = issue(f"""  mov.u64 %rd8, {at_b}; mov.u32 %r12, {descriptor};
  cvt.u64.u32 %rd9, %r10; shr.u64 %rd9, %rd9, 4; add.u64 %rd8, %rd8, %rd9;
  add.u32 %r13, %r8, 40; mov.b32 %r14, 0; mov.b32 %r15, 0xffff0000; setp.eq.u32 %p7, 0, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%r8], [%r13], %rd8, %r12, {{%r14, %r15, %r14, %r14}}, %p7, 2;""")  # fmt: skip
    out, _ = run(body, image[None], shared[None, : 40 << 10])
    want = before[:, :32].copy()
    want[:] = a @ b.T + before[:, :32] / 4
    want[48:64] = before[48:64, :32]
    np.testing.assert_allclose(out[0, :, :32].view(np.float32), want, rtol=1e-5, atol=1e-5)


SCALED = [("mxf8f6f4", 0, 1, "scale_vec::1X", 32), ("mxf8f6f4", 5, 3, "block32", 32),
          ("mxf4", 1, 1, "scale_vec::2X", 32), ("mxf4nvf4", 1, 1, "scale_vec::4X", 16)]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "ca", "cb", "said", "block"), SCALED, ids=[s[0] + s[3] for s in SCALED]
)
def test_block_scales(kind, ca, cb, said, block):
    m, n = 128, 64
    nibbles = kind != "mxf8f6f4"
    depth = 64 if nibbles else 32
    values, images, at = [], [], []
    for code, rows in ((ca, m), (cb, n)):
        if nibbles:
            value, codes = encode("e2m1", RNG.standard_normal((rows, depth)))
            data = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)[:, :, None]
        else:
            value, data = matrix(KINDS["f8f6f4"][code], rows, depth)
        image, descriptor = place(data, 2, 0)
        values.append(value)
        images.append(image[: 20 << 10])
        at.append(descriptor)
    at[1] += (20 << 10) >> 4
    image = np.zeros((128, 128), np.uint32)
    count, scales = depth // block, []
    fractional = kind == "mxf4nvf4"
    first = 2 if said == "scale_vec::2X" else 0 if fractional else 3  # which bytes hold the scales
    for rows, column in ((m, 64), (n, 72)):
        codes = RNG.integers(40, 60, (rows, 4)) if fractional else RNG.integers(120, 134, (rows, 4))
        for row in range(rows):
            word = sum(int(c) << 8 * i for i, c in enumerate(codes[row]))
            image[row % 32 :: 32, column + row // 32] = word  # the same in every warp's lanes
        used = codes[:, first : first + count]
        scales.append(decode("e4m3", used) if fractional else 2.0 ** (used - 127.0))
    descriptor = (
        first << 4
        | ca << 7
        | cb << 10
        | n >> 3 << 17
        | (not fractional) << 23
        | m >> 7 << 27
        | first << 29
    )
    body = issue(f"""  mov.u64 %rd7, {at[0]}; mov.u64 %rd8, {at[1]}; mov.u32 %r12, {descriptor};
  cvt.u64.u32 %rd9, %r10; shr.u64 %rd9, %rd9, 4; add.u64 %rd7, %rd7, %rd9; add.u64 %rd8, %rd8, %rd9;
  add.u32 %r13, %r8, 64; add.u32 %r14, %r8, 72; setp.ne.u32 %p7, 0, 0;
  tcgen05.mma.cta_group::1.kind::{kind}.block_scale.{said} [%r8], %rd7, %rd8, %r12, [%r13], [%r14], %p7;""")  # fmt: skip
    out, _ = run(body, image[None], np.concatenate(images)[None])
    wide = [v * s.repeat(block, 1) for v, s in zip(values, scales)]
    want = wide[0] @ wide[1].T
    np.testing.assert_allclose(
        out[0, :, :n].view(np.float32), want, rtol=1e-4, atol=1e-4 * np.abs(want).max()
    )


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_of_blocks_multiplies_together(m):
    n, half = 64, m // 2
    a, bytes_a = matrix("f16", m, 16)
    b, bytes_b = matrix("f16", n, 16)
    shared = np.zeros((2, 40 << 10), np.uint8)
    for rank in range(2):
        image_a, at_a = place(bytes_a[rank * half : (rank + 1) * half], 2, 0)
        image_b, at_b = place(bytes_b[rank * n // 2 : (rank + 1) * n // 2], 2, 0)
        shared[rank] = np.concatenate([image_a[: 20 << 10], image_b[: 20 << 10]])
    at_b += (20 << 10) >> 4
    descriptor = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    body = issue(f"""  mov.u64 %rd7, {at_a}; mov.u64 %rd8, {at_b}; mov.u32 %r12, {descriptor};
  cvt.u64.u32 %rd9, %r10; shr.u64 %rd9, %rd9, 4; add.u64 %rd7, %rd7, %rd9; add.u64 %rd8, %rd8, %rd9;
  setp.ne.u32 %p7, 0, 0;
  tcgen05.mma.cta_group::2.kind::f16 [%r8], %rd7, %rd8, %r12, %p7;""", pair=True)  # fmt: skip
    out, _ = run(body, np.zeros((2, 128, n), np.uint32), shared)
    got = out.view(np.float32)
    if m == 128:  # 64 rows a block: the lower lanes hold the second half of the columns
        got = np.concatenate([got[:, :64, : n // 2], got[:, 64:, : n // 2]], axis=2)
    np.testing.assert_allclose(got.reshape(m, n), a @ b.T, rtol=1e-5, atol=1e-5)


# -------------------------------------------------------------------------------- cp and shift

COPIES = [("128x256b", 128, 32), ("128x128b", 128, 16), ("32x128b.warpx4", 32, 16),
          ("64x128b.warpx2::02_13", 64, 16), ("64x128b.warpx2::01_23", 64, 16)]  # fmt: skip


@pytest.mark.parametrize("narrow", [0, 4, 6])
@pytest.mark.parametrize(("shape", "rows", "size"), COPIES, ids=[c[0] for c in COPIES])
def test_copies_from_shared_memory(shape, rows, size, narrow):
    codes = RNG.integers(0, 1 << (narrow or 8), (rows, size))
    data = pack(codes, narrow or 8)
    shared, at = place(data, 0, 0)
    how = {0: "", 4: ".b8x16.b4x16_p64", 6: ".b8x16.b6x16_p32"}[narrow]
    body = issue(f"""  mov.u64 %rd7, {at}; cvt.u64.u32 %rd9, %r10; shr.u64 %rd9, %rd9, 4; add.u64 %rd7, %rd7, %rd9;
  add.u32 %r12, %r8, 4;
  tcgen05.cp.cta_group::1.{shape}{how} [%r12], %rd7;""")  # fmt: skip
    image = words(1, 128, 32)
    out, _ = run(body, image, shared[None, : 40 << 10])
    wide = (codes << 2 if narrow == 4 else codes).astype(np.uint8).view("<u4")
    quarters = {
        "32": [0, 0, 0, 0],
        "128": [0, 1, 2, 3],
        "64": [0, 1, 0, 1] if "02_13" in shape else [0, 0, 1, 1],
    }
    want = image[0].copy()
    for warp, part in enumerate(quarters[str(rows)]):
        want[32 * warp : 32 * warp + 32, 4 : 4 + size // 4] = wide[32 * part : 32 * part + 32]
    assert np.array_equal(out[0], want)


def test_shift_moves_rows_to_the_next_lane():
    image = words(1, 128, 32)
    out, _ = run(
        issue("  add.u32 %r12, %r8, 8;\n  tcgen05.shift.cta_group::1.down [%r12];"),
        image,
        nothing(),
    )
    want = image[0].copy()
    want[1:, 8:16] = image[0, :-1, 8:16]
    assert np.array_equal(out[0], want)


# --------------------------------------------------------------------------------------- faults

FAULTS = [
    ("add.u32 %r12, %r8, 64; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r13}, [%r12];", "reaches lane 0 of tensor memory"),
    ("add.u32 %r12, %r9, 30; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r13, %r14, %r15, %r16}, [%r12];",
     "column 32 of tensor memory (columns 30 to 33 are touched) is not allocated"),
    ("add.u32 %r12, %r9, 510; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r13};", "is not allocated"),
    ("@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;", "after tcgen05.relinquish"),
    ("@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 64;", "not one allocation"),
    ("@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 48;", "a power of two from 32 to 512"),
    ("ret;", "tcgen05.dealloc is missing"),
    ("mov.u64 %rd7, 0; @%p2 tcgen05.mma.cta_group::2.kind::f16 [%r8], %rd7, %rd7, %r8, %p1;", "cluster of at least two"),
    ("mov.u64 %rd7, 0; mov.u32 %r12, 0x8100490; @%p2 tcgen05.mma.cta_group::1.kind::tf32 [%r8], %rd7, %rd7, %r12, %p1;",
     "element type 1"),
    ("mov.u64 %rd7, 0; mov.u32 %r12, 0x3100010; @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd7, %rd7, %r12, %p1;",
     "M = 48"),
    ("mov.u64 %rd7, 0x2000000000000000; mov.u32 %r12, 0x8040010; @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd7, %rd7, %r12, %p1;",
     "swizzle mode 1"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words_of_it"), FAULTS, ids=[f[1][:24] for f in FAULTS])
def test_faults(body, words_of_it):
    result = run("  " + body, words(1, 128, 32), nothing(), right=False)
    assert result.fault is not None
    assert result.fault.kind == ("leak" if "missing" in words_of_it else "illegal-access")
    assert words_of_it in result.fault.message
    assert result.fault.ptx_line


def test_a_matrix_past_shared_memory_is_out_of_bounds():
    body = "mov.u64 %rd7, 0x4000000000003ff0; mov.u32 %r12, 0x8040010; @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd7, %rd7, %r12, %p1;"
    result = run(body, words(1, 128, 32), nothing(), right=False)
    assert result.fault.kind == "out-of-bounds"


def test_columns_that_are_never_free_are_a_fault_and_no_hang():
    from launching import Bench
    from tensor_memory import text_of

    text = text_of("", 32, 1024).replace(
        "  @%p1 tcgen05.relinquish", "  @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;\n  @%p1 tcgen05.relinquish")  # fmt: skip
    result = Bench(text)("k", (1,), (128,), words(128, 32), nothing(), words(128, 32), words(1))
    assert "nobody frees any" in result.fault.message


MULTIPLY = """  mov.u64 %rd7, 0x4000404000010040; mov.u32 %r12, 0x8040010; setp.ne.u32 %p7, 0, 0;
  @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd7, %rd7, %r12, %p7;"""
COMMIT = "  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barrier];"
AWAIT = """WAITING:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [barrier], 0;
  @!%p4 bra WAITING;"""
UNAWAITED = {
    "load without commit": f"{MULTIPLY}\n  bar.sync 0;\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r13}}, [%r9];",
    "load without wait": f"{MULTIPLY}\n{COMMIT}\n  bar.sync 0;\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r13}}, [%r9];",
    "multiplied after the commit": f"{MULTIPLY}\n{COMMIT}\n{MULTIPLY}\n{AWAIT}\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r13}}, [%r9];",
    "store to D": f"{MULTIPLY}\n  bar.sync 0;\n  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+15], {{%r13}};",
    "store to A": """  mov.u64 %rd7, 0x4000404000010040; mov.u32 %r12, 0x8040010; setp.ne.u32 %p7, 0, 0;
  add.u32 %r14, %r8, 20; @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r8], [%r14], %rd7, %r12, %p7;
  bar.sync 0;\n  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+27], {%r13};""",
}  # fmt: skip


@pytest.mark.parametrize("body", UNAWAITED.values(), ids=UNAWAITED)
def test_tensor_memory_touched_before_the_commit_was_waited_for(body):
    """The product itself is computed at once; the missing wait is a fault all the same."""
    shared = np.zeros((1, 32 << 10), np.uint8)
    result = run(body, words(1, 128, 32), shared, right=False)
    assert result.fault is not None
    assert result.fault.kind == "async-copy-not-awaited"
    assert "commit nobody has waited for" in result.fault.message


def test_columns_that_no_product_touches_are_free_meanwhile():
    body = f"""{MULTIPLY}
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r13}}, [%r9+16];
{COMMIT}
{AWAIT}"""
    run(body, words(1, 128, 32), np.zeros((1, 32 << 10), np.uint8))


@pytest.mark.parametrize(
    "address",
    [
        "mov.u32 %r13, barrier;",
        "mov.u32 %r13, barrier; cvt.u64.u32 %rd8, %r13;",
        "mov.u64 %rd8, barrier; cvta.shared.u64 %rd8, %rd8;",
    ],
)
def test_a_commit_names_its_barrier_with_or_without_a_state_space(address):
    register = "%rd8" if "%rd8" in address else "%r13"
    body = f"""  {address}
{MULTIPLY}
  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [{register}];
{AWAIT}"""
    run(body, words(1, 128, 32), np.zeros((1, 32 << 10), np.uint8))


def test_two_products_of_64_rows_share_their_columns():
    """They lie in different halves of every warp's lanes, and are waited for each by itself."""
    body = f"""{MULTIPLY.replace("0x8040010", "0x4040010")}
  tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%r13}}, [%r9+{16 << 16}];
{COMMIT}
{AWAIT}"""
    run(body, words(1, 128, 32), np.zeros((1, 32 << 10), np.uint8))
