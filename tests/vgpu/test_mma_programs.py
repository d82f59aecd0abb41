"""Matrix products through PTX: sparse, Volta's, narrow ones, and every spelling as ptxas takes it."""
# SPDX-License-Identifier: Apache-2.0

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import matrix_programs as programs
from collective_library import (
    BITS,
    a_fragment,
    b_fragment,
    c_fragment,
    c_matrix,
    to_bits,
    values_for,
)

from warpsmith import vgpu
from warpsmith.errors import UnsupportedInstruction
from warpsmith.vgpu.isa.matrix import MMA_SHAPES, SPARSE_SHAPES
from warpsmith.vgpu.memory import copy_of
from warpsmith.vgpu.translate import translate

pytestmark = pytest.mark.virtual
SUMS = {"f16": ("f32", "f16"), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"), "bf16": ("f32",),
        "tf32": ("f32",), "f64": ("f64",)}  # fmt: skip
OTHER = {"s8": "u8", "u8": "s8", "s4": "u4", "u4": "s4", "e4m3": "e5m2", "e5m2": "e4m3"}


def count(rows, columns, kind):
    return rows * columns * BITS[kind] // 32 // (64 if kind == "f64" else 32)


def spelling(a, b, c, size, sparse=""):
    m, n, k = size
    more = ".xor.popc" if a == "b1" else ""
    return f"mma{sparse}.sync.aligned.m{m}n{n}k{k}.row.col.{c}.{a}.{b}.{c}{more}"


def cases(table):
    found = []
    for a, shapes in table.items():
        for size in sorted(shapes):
            for b in sorted({a, OTHER.get(a, a)}):
                for c in SUMS.get(a, ("s32",)):
                    name = f"{a}-{b}-{c}-{'x'.join(map(str, size))}"
                    found.append(pytest.param(a, b, c, size, id=name))
    return found


def build(a, b, c, size, sparse="", selector=0):
    m, n, k = size
    counts = (
        count(m, n, c),
        count(m, k // (2 if sparse else 1), a),
        count(k, n, b),
        count(m, n, c),
    )
    tail = f", {selector}" if sparse else ""
    name = spelling(a, b, c, size, sparse)
    sparse_inputs = bool(sparse)
    return programs.kernel(name, counts, (c, a, b, c), tail, sparse_inputs), counts


def near(got, left, right, sums, kind):
    want = left @ right + sums
    size = np.abs(left) @ np.abs(right) + np.abs(sums)
    unit = {"f16": 2.0**-24, "f32": 2.0**-24, "f64": 2.0**-53, "s32": 0.0}[kind]
    bound = (left.shape[1] + 1) * unit * size
    bound = bound + (2.0**-11 * np.abs(want) + 2.0**-25 if kind == "f16" else 0)
    assert (np.abs(got - want) <= bound).all(), np.abs(got - want).max()


@pytest.mark.parametrize(("a", "b", "c", "size"), cases(SPARSE_SHAPES))
def test_sparse_products(a, b, c, size):
    m, n, k = size
    rng = np.random.default_rng(k)
    row_bits = 4 * k // {"tf32": 2, "s4": 8, "u4": 8}.get(a, 4)
    sums = np.round(values_for("f16" if c == "f16" else c, (m, n), rng) / 4) if c == "s32" else values_for(
        "f16" if c == "f16" else c, (m, n), rng)  # fmt: skip
    for selector in range({16: 4, 32: 2, 64: 1}[row_bits]):
        dense, packed, meta = programs.sparsify(values_for(a, (m, k), rng), a, rng)
        right = values_for(b, (k, n), rng)
        ptx, counts = build(a, b, c, size, ".sp::ordered_metadata", selector)
        lanes = programs.metadata_lanes(meta, a, selector, rng)
        d = programs.run(
            ptx, counts[0], a_fragment(packed, a), b_fragment(right, b), c_fragment(sums, c), lanes
        )
        near(c_matrix(d, m, n, c), dense, right, sums, c)


def test_a_selector_out_of_range_is_refused_with_its_line():
    ptx, _ = build("s8", "s8", "s32", (16, 8, 64), ".sp", 1)
    with pytest.raises(
        UnsupportedInstruction, match=r"selector is 1, allowed are 0 to 0.*PTX line"
    ):
        vgpu.load(ptx).prepare("product")


def volta_places(kind, lane, i, transposed):
    """Row (or column of B) and depth of element i of a lane of A (B), of m8n8k4."""
    high = 4 if lane >= 16 else 0
    return (lane % 4 + high, i) if not transposed else (i % 4 + high, lane % 4)


def volta_sum_place(kind, lane, i):
    high = 4 if lane >= 16 else 0
    if kind == "f16":
        return lane % 4 + high, i
    return (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)


@pytest.mark.parametrize(
    "layouts", [("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")]
)
@pytest.mark.parametrize(("d", "c"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
def test_the_four_products_of_volta(layouts, d, c):
    rng = np.random.default_rng(1)
    left, right, sums = (values_for("f16", s, rng) for s in ((4, 8, 4), (4, 8, 4), (4, 8, 8)))
    parts = [np.zeros((32, 4)), np.zeros((32, 4)), np.zeros((32, 8))]
    for lane in range(32):
        t = lane // 4 % 4
        for i in range(4):
            row, depth = volta_places("a", lane, i, layouts[0] == "col")
            parts[0][lane, i] = left[t, row, depth]
            row, depth = volta_places("b", lane, i, layouts[1] == "row")
            parts[1][lane, i] = right[t, row, depth]
        for i in range(8):
            row, n = volta_sum_place(c, lane, i)
            parts[2][lane, i] = sums[t, row, n]
    pack = [p.astype(np.float16).view(np.uint32).T for p in parts]
    if c == "f32":
        pack[2] = parts[2].astype(np.float32).view(np.uint32).T
    counts = (4 if d == "f16" else 8, 2, 2, 4 if c == "f16" else 8)
    name = f"mma.sync.aligned.m8n8k4.{layouts[0]}.{layouts[1]}.{d}.f16.f16.{c}"
    ptx = programs.kernel(name, counts, (d, "f16", "f16", c))
    got = programs.run(ptx, counts[0], *pack)
    lanes = np.ascontiguousarray(got.T).view(np.float16 if d == "f16" else np.float32).astype(float)
    for lane in range(32):
        t = lane // 4 % 4
        want = left[t] @ right[t].T + sums[t]
        for i in range(8):
            row, n = volta_sum_place(d, lane, i)
            assert abs(lanes[lane, i] - want[row, n]) <= (2e-3 if d == "f16" else 1e-6), (lane, i)


NARROW = """{head}
.visible .entry narrow(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
  .reg .b32 %x, %y, %c<2>, %d<2>; .reg .b64 %p<4>;
  ld.param.b64 %p0, [a]; ld.param.b64 %p1, [b]; ld.param.b64 %p2, [c]; ld.param.b64 %p3, [d];
  wmma.load.a.sync.aligned.row.{shape}.global.{a} {{%x}}, [%p0], {stride};
  wmma.load.b.sync.aligned.col.{shape}.global.{b} {{%y}}, [%p1];
  wmma.load.c.sync.aligned.row.{shape}.global.s32 {{%c0, %c1}}, [%p2];
  wmma.mma{more}.sync.aligned.row.col.{shape}.s32.{a}.{b}.s32{sat} {{%d0, %d1}}, {{%x}}, {{%y}}, {{%c0, %c1}};
  wmma.store.d.sync.aligned.col.{shape}.global.s32 [%p3], {{%d0, %d1}};
  ret;
}}"""


@pytest.mark.parametrize(
    ("kind", "more"), [("s4", ""), ("u4", ""), ("b1", ".xor.popc"), ("b1", ".and.popc")]
)
def test_wmma_of_4_and_1_bits(kind, more):
    rng = np.random.default_rng(2)
    k, bits = 128 // BITS[kind], BITS[kind]
    left, right = (
        rng.integers(*((-8, 8) if kind == "s4" else (0, 1 << bits)), (8, k)) for _ in range(2)
    )
    sums = rng.integers(-1000, 1000, (8, 8)).astype(np.int32)

    def packed(matrix, pitch):
        raw = to_bits(matrix.astype(float), kind).astype(np.uint64).reshape(8, -1, 8 // bits)
        out = np.zeros((8, pitch), np.uint8)
        out[:, :16] = (raw << (np.arange(8 // bits) * bits).astype(np.uint64)).sum(2)
        return out

    arrays = [
        copy_of(packed(left, 32)),
        copy_of(packed(right, 16)),
        copy_of(sums),
        copy_of(np.zeros((8, 8), np.int32)),
    ]
    ptx = NARROW.format(head=programs.HEAD, shape=f"m8n8k{k}", a=kind, b=kind, more=more,
                        sat="" if kind == "b1" else ".satfinite", stride=2 * k)  # fmt: skip
    memory = vgpu.Memory()
    for i, x in enumerate(arrays):
        memory.register(x.ctypes.data, x.nbytes, f"p{i}")
    result = vgpu.load(ptx).launch(
        "narrow", (1,), (32,), [x.ctypes.data for x in arrays], memory=memory
    )
    assert result.fault is None, result.fault.message
    pairs = (left[:, None], right[None])
    product = (pairs[0] * pairs[1]).sum(2) if kind != "b1" else (
        pairs[0] & pairs[1] if "and" in more else pairs[0] ^ pairs[1]).sum(2)  # fmt: skip
    np.testing.assert_array_equal(arrays[3].T, product + sums)


def all_spellings():
    """(name, registers, kinds, tail, whether metadata) of every product here."""
    for table, sparse in ((MMA_SHAPES, ""), (SPARSE_SHAPES, ".sp::ordered_metadata")):
        for case in cases(table):
            a, b, c, size = case.values
            yield build(a, b, c, size, sparse)[0]
    for a in ("row", "col"):
        name = f"mma.sync.aligned.m8n8k4.{a}.col.f32.f16.f16.f32"
        yield programs.kernel(name, (8, 2, 2, 8), ("f32", "f16", "f16", "f32"))


def assembles(texts, arch, folder):
    source = folder / f"{arch}.ptx"
    bodies = (
        t.removeprefix(programs.HEAD).replace("product", f"product{i}") for i, t in enumerate(texts)
    )
    source.write_text(programs.HEAD.replace("sm_90a", arch) + "\n".join(bodies))
    command = [shutil.which("ptxas"), f"-arch={arch}", str(source), "-o", str(folder / "out.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_every_spelling_assembles_and_translates(tmp_path):
    """ptxas takes what the rules take: shapes, types and registers are the machine's, not ours."""
    texts = list(all_spellings())
    for ptx in texts:
        translate(vgpu.load(ptx).parsed, "product")
    newer = [t for t in texts if re.search(r"mma.sp\S*f16\.e[45]m", t)]  # f16 sums of fp8: sm_120
    assert len(texts) > 70
    assembles([t for t in texts if t not in newer], "sm_90a", tmp_path)
    assembles(newer, "sm_120a", tmp_path)
