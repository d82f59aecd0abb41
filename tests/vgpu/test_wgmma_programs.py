"""wgmma through PTX against NumPy: every type, sparse A with metadata, bits, every spelling for ptxas."""
# SPDX-License-Identifier: Apache-2.0

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import matrix_programs as programs
from collective_library import BITS, a_fragment, c_fragment, c_matrix, values_for
from test_collective_mma import check, place_tile

from warpsmith import vgpu
from warpsmith.errors import UnsupportedInstruction
from warpsmith.vgpu.memory import copy_of
from warpsmith.vgpu.translate import translate

pytestmark = pytest.mark.virtual
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
SUMS = {"f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"),
        "s8": ("s32",), "u8": ("s32",), "b1": ("s32",)}  # fmt: skip
OTHER = {"e4m3": "e5m2", "e5m2": "e4m3", "s8": "u8", "u8": "s8"}
SHARED = 48 * 1024


def program(a, b, d, n, *, sparse=False, registers=False, selector=0) -> str:
    """128 threads fill shared memory from an image, load D, A and metadata, multiply and store D."""
    count = n * (8 if d == "f16" else 16) // 32
    k = DEPTH[a] * (2 if sparse else 1)
    kind = {"f32": "f32"}.get(d, "b32")
    names = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    left = "{%a0, %a1, %a2, %a3}" if registers else "%x"
    floats = a not in ("s8", "u8", "b1")
    tail = ", 1, 1" if floats else ""
    if floats and BITS[a] == 16:
        tail += ", 0" if registers else ", 0, 0"
    meta = f", %e, {selector}" if sparse else ""
    loads = "\n".join(f"  ld.global.{kind} %d{i}, [%pd+{512 * i}];" for i in range(count))
    stores = "\n".join(f"  st.global.{kind} [%pd+{512 * i}], %d{i};" for i in range(count))
    lefts = "\n".join(f"  ld.global.b32 %a{i}, [%pa+{512 * i}];" for i in range(4))
    more = ".and.popc" if a == "b1" else ""
    return f"""{programs.HEAD}
.extern .shared .align 1024 .b8 tile[];
.visible .entry product(.param .u64 pi, .param .u64 pd, .param .u64 pa, .param .u64 pe, .param .u64 x,
                        .param .u64 y, .param .u32 scale)
{{
  .reg .pred %p, %q; .reg .{kind} %d<{count}>; .reg .b32 %a<4>, %e, %t, %i, %v, %s, %w;
  .reg .b64 %pi, %pd, %pa, %pe, %x, %y, %o;
  mov.u32 %t, %tid.x; ld.param.b32 %w, [scale]; setp.ne.u32 %q, %w, 0;
  ld.param.b64 %pi, [pi]; ld.param.b64 %x, [x]; ld.param.b64 %y, [y];
  ld.param.b64 %pd, [pd]; mad.wide.u32 %pd, %t, 4, %pd;
  ld.param.b64 %pa, [pa]; mad.wide.u32 %pa, %t, 4, %pa;
  ld.param.b64 %pe, [pe]; mad.wide.u32 %pe, %t, 4, %pe; ld.global.b32 %e, [%pe];
  shl.b32 %i, %t, 2; mov.u32 %s, tile; add.u32 %s, %s, %i; cvt.u64.u32 %o, %i; add.u64 %pi, %pi, %o;
COPY:
  ld.global.b32 %v, [%pi]; st.shared.b32 [%s], %v;
  add.u64 %pi, %pi, 512; add.u32 %s, %s, 512; add.u32 %i, %i, 512;
  setp.lt.u32 %p, %i, {SHARED};
  @%p bra COPY;
  fence.proxy.async.shared::cta; bar.sync 0;
{loads}
{lefts}
  wgmma.fence.sync.aligned;
  wgmma.mma_async{".sp" if sparse else ""}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{more}
    {names}, {left}, %y{meta}, %q{tail};
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
{stores}
  ret;
}}"""


def run(
    left,
    right,
    sums,
    kinds,
    *,
    line=128,
    meta=None,
    selector=0,
    registers=False,
    scale=1,
    **options,
):
    """(64, n) of D. left: as it lies in shared memory or registers (packed where it is sparse)."""
    a, b, d = kinds
    n = right.shape[1]
    image = np.zeros(SHARED, np.uint8)
    byte_kinds = ["u8" if k == "b1" else k for k in (a, b)]
    x = 0 if registers else place_tile(left, byte_kinds[0], line, 0, image, 1024)
    y = place_tile(np.ascontiguousarray(right.T), byte_kinds[1], line, 0, image, 20480)
    fragments = np.concatenate(
        [c_fragment(sums[16 * w : 16 * w + 16], d) for w in range(4)], axis=1
    )
    lefts = np.zeros((4, 128), np.uint32)
    if registers:
        lefts = np.concatenate(
            [a_fragment(left[16 * w : 16 * w + 16], byte_kinds[0]) for w in range(4)], axis=1
        )
    arrays = [copy_of(np.ascontiguousarray(v)) for v in (image, fragments, lefts.astype(np.uint32),
              np.zeros(128, np.uint32) if meta is None else meta)]  # fmt: skip
    memory = vgpu.Memory()
    for i, v in enumerate(arrays):
        memory.register(v.ctypes.data, v.nbytes, f"p{i}")
    ptx = program(a, b, d, n, sparse=meta is not None, registers=registers, selector=selector)
    result = programs.module(ptx).launch("product", (1,), (128,), [*(v.ctypes.data for v in arrays), x, y, scale],
                                         memory=memory, shared_bytes=SHARED, **options)  # fmt: skip
    assert result.fault is None, result.fault.message
    d_all = arrays[1].reshape(-1, 128)
    parts = [
        c_matrix(np.ascontiguousarray(d_all[:, 32 * w : 32 * w + 32]), 16, n, d) for w in range(4)
    ]
    return np.concatenate(parts), result


def matrices(a, b, d, n, k):
    rng = np.random.default_rng(n + k)
    sums = values_for(d, (64, n), rng)
    return (
        values_for(a, (64, k), rng),
        values_for(b, (k, n), rng),
        np.round(sums / 4) if d == "s32" else sums,
        rng,
    )


CASES = [(a, b, d) for a in DEPTH if a != "b1" for b in (a, OTHER.get(a, "")) if b for d in SUMS[a]]


@pytest.mark.parametrize(("a", "b", "d"), CASES)
@pytest.mark.parametrize("registers", [False, True])
def test_dense_products_of_every_type(a, b, d, registers):
    left, right, sums, _ = matrices(a, b, d, 32, DEPTH[a])
    got, result = run(left, right, sums, (a, b, d), registers=registers)
    check(got, left, right, sums, d)
    flops = sum(result.counters.tensor_flops.values())
    assert flops == 2 * 64 * 32 * DEPTH[a] == result.counters.warpgroup_mma_flops
    got, _ = run(left, right, sums, (a, b, d), registers=registers, scale=0)
    check(got, left, right, 0 * sums, d)


@pytest.mark.parametrize(("a", "b", "d"), CASES)
@pytest.mark.parametrize("registers", [False, True])
def test_sparse_products_of_every_type(a, b, d, registers):
    k = 2 * DEPTH[a]
    left, right, sums, rng = matrices(a, b, d, 16, k)
    dense, packed, meta = programs.sparsify(left, a, rng)
    for selector in range(2 if BITS[a] >= 16 else 1):
        lanes = np.concatenate([programs.metadata_lanes(meta[16 * w : 16 * w + 16], a, selector, rng)
                                for w in range(4)])  # fmt: skip
        line = 64 if packed.shape[1] * BITS[a] // 8 <= 64 else 128
        got, result = run(packed, right, sums, (a, b, d), line=line, meta=lanes, selector=selector,
                          registers=registers)  # fmt: skip
        check(got, dense, right, sums, d)
        assert (
            sum(result.counters.tensor_flops.values()) == 2 * 64 * 16 * k
        )  # effective dense FLOPs


@pytest.mark.parametrize("registers", [False, True])
def test_products_of_bits(registers):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 2, (64, 256)), rng.integers(0, 2, (256, 24))
    sums = rng.integers(-100, 100, (64, 24)).astype(float)

    def packed(bits):  # rows of 32 bytes
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little").astype(float)

    got, _ = run(
        packed(left), packed(right.T).T, sums, ("b1", "b1", "s32"), line=32, registers=registers
    )
    np.testing.assert_array_equal(got, left @ right + sums)


def spellings():
    for a, b, d in [*CASES, ("b1", "b1", "s32")]:
        for registers in (False, True):
            yield program(a, b, d, 24, registers=registers)
            if a != "b1":
                yield program(a, b, d, 24, registers=registers, sparse=True)
    yield from (program("f16", "f16", "f32", n) for n in (8, 96, 256))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_every_spelling_assembles_and_translates(tmp_path):
    bodies = []
    for i, ptx in enumerate(spellings()):
        translate(vgpu.load(ptx).parsed, "product")
        body = ptx.removeprefix(programs.HEAD).replace(
            ".extern .shared .align 1024 .b8 tile[];", ""
        )
        bodies.append(body.replace("product", f"product{i}"))
    source = tmp_path / "all.ptx"
    source.write_text(
        programs.HEAD + ".extern .shared .align 1024 .b8 tile[];\n" + "\n".join(bodies)
    )
    command = [
        shutil.which("ptxas"),
        "-O0",
        "-arch=sm_90a",
        str(source),
        "-o",
        str(tmp_path / "out.cubin"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize(
    ("a", "d", "n"), [("f16", "f32", 12), ("s8", "s32", 40), ("f16", "f32", 264)]
)
def test_widths_that_the_machine_lacks_are_refused(a, d, n):
    with pytest.raises(UnsupportedInstruction, match=rf"m64n{n}k.*PTX line"):
        vgpu.load(program(a, a, d, n)).prepare("product")
