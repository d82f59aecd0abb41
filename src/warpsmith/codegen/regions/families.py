"""The ladder of each kind of region: its rungs, what each one does, and what may be tuned."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import cuda, cuda_pointwise, cuda_product, cuda_rows, triton
from .ir import Region
from .kernel import Kernel
from .layout import Layout
from .simplify import merged, online
from .writer import Program

Make = Callable[[Region, str, Mapping[str, Any], dict[str, Any]], Kernel]


@dataclass(frozen=True)
class Rung:
    """One step of a ladder. parameters: name -> values that may be tried, the default first."""

    title: str
    make: Make
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


MOST_BLOCKS = (2**31 - 1, 132 * 8, 132 * 16)


def _rows(rung: str) -> Make:
    return lambda region, name, parameters, about: cuda_rows.rows(
        region, name, rung, parameters, about
    )


def _pointwise(rung: int) -> Make:
    return lambda region, name, parameters, about: cuda_pointwise.pointwise(
        region, name, rung, parameters, about
    )


def cuda_ladder(region: Region) -> list[Rung]:
    """The CUDA rungs that fit a region, from the naive one upwards."""
    layout = cuda.prepare(region)
    if region.kind == "pointwise":
        return _pointwise_ladder(layout)
    if region.kind == "contract":
        return _product_ladder(layout)
    return _row_ladder(region, layout)


def _pointwise_ladder(layout: Layout) -> list[Rung]:
    blocks = {"block": (256, 128, 512, 1024)}
    rungs = [
        Rung("naive: one thread an element", _pointwise(1), blocks),
        Rung(
            "grid stride: a persistent grid walks over the elements",
            _pointwise(2),
            blocks | {"max_blocks": (132 * 8, 132 * 16, 132 * 4)},
        ),
    ]
    if cuda_pointwise.crossing(layout) is not None:
        tile = {"tile": (32,), "depth": (8, 16, 4)}
        rungs.append(
            Rung(
                "transposed operands through padded tiles in shared memory",
                cuda_pointwise.transpose,
                tile,
            )
        )
    if cuda.widest_vector(layout) > 1:
        tuned = blocks | {"unroll": (1, 2, 4), "max_blocks": MOST_BLOCKS}
        rungs.append(Rung("16-byte packs with a scalar tail", _pointwise(3), tuned))
    return rungs


def _fitting(region: Region, each: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """The choices behind the number of steps of `each` columns that the main case's rows take.

    >>> _fitting(Region("rows", (), traced_columns=1024), 128, (4, 2, 8))
    (8, 4, 2)
    """
    wanted = -(-region.traced_columns // each)
    fits = 0 < wanted <= max(choices)
    return tuple(dict.fromkeys([wanted, *choices])) if fits else choices


def _block_of(region: Region, vector: int) -> int:
    """Threads that keep a row of the main case at four packs each or fewer; 256 if it is not known."""
    if not region.traced_columns:
        return 256
    sizes = (128, 256, 512)
    return next((b for b in sizes if region.traced_columns <= 4 * b * vector), 1024)


def _row_ladder(region: Region, layout: Layout) -> list[Rung]:
    program = Program(layout)
    rungs = [Rung("naive: one thread a row", _rows("thread"), {"block": (128, 64, 256)})]
    splittable = program.phases == 1 and not program.full_stores
    if not layout.coalesced_cols:
        tile = {"block": (256, 512, 1024), "width": (32, 64)}
        rungs.append(
            Rung("tile: neighboring rows side by side, several threads a row", _rows("tile"), tile)
        )
    else:
        rungs.append(Rung("one warp a row, shuffles", _rows("warp"), {"block": (128, 256, 64)}))
        threads = {"block": (256, 128, 512, 1024)}
        rungs.append(Rung("one block a row, shuffles and shared memory", _rows("block"), threads))
        if cuda.widest_vector(layout) > 1:
            tuned = threads | {"max_blocks": MOST_BLOCKS}
            rungs.append(Rung("one block a row, 16-byte packs", _rows("vector"), tuned))
        if program.phases + bool(program.full_stores) > 1:
            vector = cuda.widest_vector(layout)
            block = _block_of(region, vector)
            kept = {"block": tuple(dict.fromkeys([block, *threads["block"]]))}
            kept |= {"items": _fitting(region, block * vector, (4, 2, 8, 16))}
            rungs.append(Rung("the row kept in registers, read once", _rows("cached"), kept))
            kept = {"warps": (4, 1, 2, 8), "packs": _fitting(region, 32 * vector, (8, 2, 4, 16))}
            title = "one warp keeps a row in registers: no shared memory, no barrier"
            rungs.append(Rung(title, _rows("cached_warp"), kept))
        if online(merged(region)) is not None:
            rungs.append(
                Rung("online softmax: maximum and sum in one pass", _rows("online"), threads)
            )
    if splittable:
        split = {"block": (256, 512, 128), "chunk": (4096, 1024, 16384), "width": (32,)}
        rungs.append(
            Rung("two stages: chunks of a row, then a merge in fixed order", _rows("split"), split)
        )
    return rungs


def _product(rung: str) -> Make:
    return lambda region, name, parameters, about: cuda_product.product(
        region, name, rung, parameters, about
    )


def _product_ladder(layout: Layout) -> list[Rung]:
    rungs = [
        Rung("naive: one thread an output", _product("naive"), {"block": (256, 128, 512)}),
        Rung("tiles in shared memory", _product("shared"), {"tile": (16, 32)}),
    ]
    registers = {
        "tile_rows": (64, 128, 32),
        "tile_cols": (64, 128, 32),
        "tile_depth": (8, 16, 32),
        "each_rows": (4, 8),
        "each_cols": (4, 8),
    }
    rungs.append(
        Rung(
            "several outputs a thread in registers, 16-byte loads", _product("registers"), registers
        )
    )
    if cuda_product.fits_tensor_cores(layout):
        tensor = {
            "tile_rows": (128, 64),
            "tile_cols": (128, 64),
            "tile_depth": (32, 64),
            "warps_rows": (2, 1),
            "warps_cols": (2, 4),
        }
        rungs.append(
            Rung("tensor cores (mma.sync), float32 accumulation", _product("tensor"), tensor)
        )
    return rungs


def ladder_text(rungs: list[Rung]) -> str:
    """'1 naive … · 2 one warp a row …'.

    >>> ladder_text([Rung("naive: one thread a row", None)])
    '1 naive: one thread a row'
    """
    return " · ".join(f"{k} {r.title}" for k, r in enumerate(rungs, 1))


def triton_ladder(region: Region) -> list[Rung]:
    """The Triton rungs that fit a region, the plain one first."""
    layout = cuda.prepare(region)
    if region.kind == "pointwise":
        tuned = {"block": (1024, 512, 2048, 4096), "num_warps": (4, 8)}
        return [Rung("one block of elements a program", triton.pointwise, tuned)]
    if region.kind == "contract":
        tiles = {
            "rows": (64, 128, 32),
            "cols": (64, 128, 32),
            "depth": (32, 64, 16),
            "num_warps": (4, 8),
            "num_stages": (3, 2, 4),
        }
        return [Rung("tiles through tl.dot", triton.product, tiles)]
    return _triton_rows(region, layout)


def _triton_row(rung: str) -> Make:
    return lambda region, name, parameters, about: triton.rows(
        region, name, rung, parameters, about
    )


def _triton_rows(region: Region, layout: Layout) -> list[Rung]:
    if not layout.coalesced_cols:
        tile = {"rows": (32, 64, 128), "block": (32, 16, 64), "num_warps": (4, 8)}
        return [Rung("tiles of neighboring rows, columns in blocks", _triton_row("loop"), tile)]
    looped = {"rows": (1, 2, 4), "block": (1024, 512, 2048, 4096), "num_warps": (4, 8)}
    rungs = [Rung("one row a program, columns in blocks", _triton_row("loop"), looped)]
    whole = {
        "rows": (1, 2, 4),
        "num_warps": (4, 8, 2, 16),
        "block": (1024,),
        "widest": (16384, 65536),
    }
    rungs.append(Rung("the whole row in one block, read once", _triton_row("whole"), whole))
    if online(merged(region)) is not None:
        rungs.append(
            Rung("online softmax: maximum and sum in one pass", _triton_row("online"), looped)
        )
    return rungs


LADDERS: dict[str, Callable[[Region], list[Rung]]] = {"cuda": cuda_ladder, "triton": triton_ladder}
