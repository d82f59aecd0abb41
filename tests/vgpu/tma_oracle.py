"""What TMA leaves in shared and in global memory, in NumPy, from the manual's figures; and PTX to ask it.

Axes here are in NumPy's order, outermost first. A box lies densely in shared memory. The swizzle of
128 bytes exchanges the eight 16-byte columns of each 128-byte line by exclusive or with the line's
number modulo 8; that of 64 bytes the four columns of each half line with the line's number modulo 4;
that of 32 bytes the two columns of each quarter with it modulo 2. The patterns repeat after 1024, 512
and 256 bytes of shared memory (PTX ISA, Tensors: swizzling modes).
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools

import numpy as np

NAN_BITS = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}


def swizzle_order(nbytes: int, swizzle: int, base: int = 0) -> np.ndarray:
    """For each 16-byte chunk of a box: the chunk of shared memory that it lies in."""
    columns = {0: 1, 32: 2, 64: 4, 128: 8}[swizzle]
    order = []
    for chunk in range(nbytes // 16):
        line, column = divmod(base // 16 + chunk, 8)
        group, inner = divmod(column, columns)
        turned = inner ^ (line % columns)
        order.append(line * 8 + group * columns + turned - base // 16)
    return np.array(order)


def box_indices(shape, box, at, steps):
    """(index arrays of the box's elements, one an axis; which of them lie in the tensor)."""
    axes = []
    for axis, (size, first) in enumerate(zip(box, at)):
        step = 1 if axis == len(box) - 1 else steps[axis]  # the innermost axis has no stride
        axes.append(first + step * np.arange(-(-size // step)))
    grid = np.meshgrid(*axes, indexing="ij")
    inside = np.ones(grid[0].shape, bool)
    for index, size in zip(grid, shape):
        inside &= (index >= 0) & (index < size)
    return grid, inside


def fill_value(dtype, fill: str):
    if fill == "nan" and np.dtype(dtype).kind == "f":
        width = np.dtype(dtype).itemsize
        return np.array(NAN_BITS[width], f"u{width}").view(dtype)[()]
    return np.zeros((), dtype)[()]


def tile(tensor, box, at, steps, fill="zero"):
    """The box, read from the tensor."""
    grid, inside = box_indices(tensor.shape, box, at, steps)
    safe = tuple(np.where(inside, index, 0) for index in grid)
    picked = tensor[safe]
    picked[~inside] = fill_value(tensor.dtype, fill)
    return picked


def image(values, swizzle: int, base: int = 0) -> np.ndarray:
    """A box as the bytes of shared memory from its start."""
    chunks = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 16)
    out = np.zeros_like(chunks)
    out[swizzle_order(chunks.size, swizzle, base)] = chunks
    return out.reshape(-1)


def pixels(tensor, lower, upper, channels, count, at, offsets, steps, fill="zero"):
    """im2col: `count` pixels of N…HWC from `at` on; corners and offsets innermost (W) first."""
    n_axes = tensor.ndim
    spatial = n_axes - 2
    where = list(at)  # N, …, H, W, C
    rows = []
    for _ in range(count):
        read = list(where)
        for s in range(spatial):
            read[n_axes - 2 - s] += offsets[s]
        row = np.full(channels, fill_value(tensor.dtype, fill), tensor.dtype)
        inside = all(0 <= i < size for i, size in zip(read[:-1], tensor.shape[:-1]))
        if inside:
            for c in range(channels):
                if 0 <= read[-1] + c < tensor.shape[-1]:
                    row[c] = tensor[(*read[:-1], read[-1] + c)]
        rows.append(row)
        for s in range(spatial + 1):
            axis = n_axes - 2 - s
            where[axis] += steps[axis]
            if s == spatial or where[axis] <= tensor.shape[axis] - 1 + upper[s]:
                break
            where[axis] = lower[s]
    return np.stack(rows)


# ------------------------------------------------------------------------------------------ PTX

_HEAD = """.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
"""


def _coordinates(rank: int) -> tuple[str, str]:
    names = [f"%c{i}" for i in range(rank)]
    loads = "\n".join(f"  ld.param.b32 {n}, [at+{4 * i}];" for i, n in enumerate(names))
    return loads, "{" + ", ".join(names) + "}"


def load_kernel(rank: int, mode: str = "tile", *, offsets: int = 0, wait: bool = True,
                extra: str = "", operands: str = "") -> str:  # fmt: skip
    """A kernel that copies one box to shared memory and its bytes from there to `out`."""
    loads, at = _coordinates(rank)
    moved = "\n".join(f"  ld.param.b16 %o{i}, [offset+{2 * i}];" for i in range(offsets))
    names = ", {" + ", ".join(f"%o{i}" for i in range(offsets)) + "}" if offsets else ""
    waiting = """
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], 0;
  @!%done bra WAIT;""" if wait else ""  # fmt: skip
    return f"""{_HEAD}
.visible .entry load(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 bytes,
                     .param .align 4 .b8 at[20], .param .align 2 .b8 offset[8], .param .u32 base)
{{
  .reg .pred %p, %done; .reg .b32 %r<9>, %c<5>; .reg .b16 %o<3>; .reg .b64 %d<6>;
  .shared .align 8 .b64 bar;
{loads}
{moved}
  ld.param.b64 %d1, [out]; ld.param.b32 %r1, [bytes]; ld.param.b32 %r6, [base];
  mov.u32 %r2, %tid.x; setp.eq.u32 %p, %r2, 0; shl.b32 %r2, %r2, 2;
  mov.u32 %r3, tile; add.u32 %r3, %r3, %r6; mov.u64 %d2, map;
  @%p mbarrier.init.shared::cta.b64 [bar], 1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.u32 %r7, bar;
  @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r1;
  @%p cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes{extra}
    [%r3], [%d2, {at}], [%r7]{names}{operands};
{waiting}
LOOP:
  setp.ge.u32 %p, %r2, %r1;
  @%p bra END;
  add.u32 %r4, %r3, %r2; ld.shared.b32 %r5, [%r4];
  cvt.u64.u32 %d3, %r2; add.u64 %d4, %d1, %d3; st.global.b32 [%d4], %r5;
  add.u32 %r2, %r2, 128;
  bra LOOP;
END:
  ret;
}}"""


def store_kernel(rank: int, mode: str = "tile", operation: str = "", commit: bool = True) -> str:
    """A kernel that fills shared memory from `source` and writes or reduces one box of it."""
    loads, at = _coordinates(rank)
    opcode = "cp.reduce.async.bulk" if operation else "cp.async.bulk"
    done = "@%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;" if commit else ""
    return f"""{_HEAD}
.visible .entry store(.param .align 64 .b8 map[128], .param .u64 source, .param .u32 bytes,
                      .param .align 4 .b8 at[20])
{{
  .reg .pred %p, %q; .reg .b32 %r<9>, %c<5>; .reg .b64 %d<6>;
{loads}
  ld.param.b64 %d1, [source]; ld.param.b32 %r1, [bytes];
  mov.u32 %r2, %tid.x; mov.u32 %r6, %tid.x; mov.u32 %r3, tile; mov.u64 %d2, map;
LOOP:
  setp.ge.u32 %p, %r2, %r1;
  @%p bra FILLED;
  cvt.u64.u32 %d3, %r2; add.u64 %d4, %d1, %d3; ld.global.b32 %r5, [%d4];
  add.u32 %r4, %r3, %r2; st.shared.b32 [%r4], %r5;
  add.u32 %r2, %r2, 128;
  bra LOOP;
FILLED:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.eq.u32 %p, %r6, 0;
  @%p {opcode}.tensor.{rank}d.global.shared::cta{"." + operation if operation else ""}.{mode}.bulk_group
    [%d2, {at}], [%r3];
  {done}
  ret;
}}""".replace("%tid.x; mov.u32 %r6, %tid.x", "%tid.x; shl.b32 %r2, %r2, 2; mov.u32 %r6, %tid.x")


def corners(shape, box):
    """Coordinates worth a look: inside, over every edge, wholly outside."""
    choices = [sorted({0, -1, size - max(1, b // 2), size + 3, 2}) for size, b in zip(shape, box)]
    return list(itertools.product(*choices))
