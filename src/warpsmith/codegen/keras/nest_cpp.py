"""One loop nest as one C++ function: vectors along a dimension that everything walks by steps of 1.

A product with weights keeps a block of results in registers: `K` vectors along the vector
dimension by `U` positions of a second one that shares the weights. Weights are laid out in the
order in which the block reads them, the last vector padded. A reduction along the contiguous
dimension keeps partial results in lanes. What fits neither runs element by element.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import expressions
from .ir import ACC, Nest, load


@dataclass(frozen=True)
class Machine:
    """For what a nest is written: lanes of a vector, and how many accumulators stay in registers.

    wide: vectors along the vector dimension when nothing shares the weights; shared: when `positions`
    of a second dimension do. device: a CUDA device function, whose pointers may be of any kind.
    unit: lanes of the widest machine that reads the same weights; their layout depends on it alone,
    0 for this machine's own. chains: sums in flight from which a fused multiply-add's latency is hidden.
    one_layout: weights lie in the same order whether one sample or several read them, so that large
    ones are stored once.
    """

    lanes: int
    registers: int = 12
    wide: int = 8
    shared: int = 3
    positions: int = 6
    device: bool = False
    unit: int = 0
    chains: int = 1
    one_layout: bool = False


_COMBINE = {
    "add": lambda a, b: f"{a} + {b}",
    "max": lambda a, b: f"maximum({a}, {b})",
    "min": lambda a, b: f"minimum({a}, {b})",
}
_START = {
    "add": "Scalar(0)",
    "max": "-std::numeric_limits<Scalar>::infinity()",
    "min": "std::numeric_limits<Scalar>::infinity()",
}


@dataclass
class Writer:
    """Lines of C++ with indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def __call__(self, line: str) -> None:
        self.lines.append("  " * self.depth + line if line else "")

    def open(self, line: str) -> None:
        self(line + " {")
        self.depth += 1

    def close(self, count: int = 1) -> None:
        for _ in range(count):
            self.depth -= 1
            self("}")


@dataclass
class Function:
    """A nest's C++ function, and the constants it wants in another layout."""

    text: str
    layouts: dict[int, np.ndarray] = field(default_factory=dict)  # load -> its weights, flat


def write(
    n: Nest, name: str, machine: Machine, weights: Callable[[int], np.ndarray | None]
) -> Function:
    """The function `name(p0, p1, …, out)` for a nest; pointers include the views' offsets.

    weights(i): the constant that load i reads, None where it is memory.
    """
    return _Nest(n, name, machine, weights).function()


class _Nest:
    def __init__(self, n: Nest, name: str, machine: Machine, weights):
        self.n, self.name, self.weights = n, name, weights
        self.machine, self.lanes = machine, machine.lanes
        self.w = Writer()
        self.layouts: dict[int, np.ndarray] = {}
        self.strides = [list(v.strides) for v in n.loads]
        out = list(n.out.strides)
        self.out = out + [0] * (len(n.extents) - len(out))
        dims = range(len(n.extents))
        self.reduced = [d for d in dims if (not self.out[d] if n.scatter else d >= n.parallel)]
        self.parallel = [d for d in dims if d not in self.reduced]
        self.combine: str = "add" if n.scatter else n.combine or ""

    # ------------------------------------------------------------------------------- the frame

    def function(self) -> Function:
        rows = expressions.has_rows(self.n)
        v = None if rows else self._vector_dimension()
        if v is not None and self.combine:
            self._blocks(v)
        elif v is not None:
            self._map(v)
        elif (
            not rows
            and self.combine
            and not self.n.scatter
            and (r := self._dot_dimension()) is not None
        ):
            self._dot(r)
        else:
            self._scalars()
        return Function(self._text(), self.layouts)

    def _text(self) -> str:
        n, body = self.n, self.n.body
        head = [f"// {n.note}"] if n.note else []
        pieces = []
        if self.combine:
            pieces.append(self._expression("body", body, acc=False))
            if not n.scatter and n.finish != ACC:
                pieces.append(self._expression("finish", n.finish, acc=True))
        elif not expressions.has_rows(n):
            pieces.append(self._expression("body", body, acc=False))
        shared = any(v.buffer == n.out.buffer for v in n.loads) or n.scatter
        opening = self._opening(shared)
        unused = "".join(
            f"  (void)p{i};\n" for i in range(len(n.loads)) if not self._used(i)
        )  # fmt: skip
        text = f"{opening} {{\n{unused}" + "\n".join(self.w.lines) + "\n}\n"
        return "\n".join([*head, *pieces, text])

    def _opening(self, shared: bool) -> str:
        """shared: some load may be of the memory that is written."""
        count = len(self.n.loads)
        if self.machine.device:
            kinds = ", ".join([*(f"class P{i}" for i in range(count)), "class Out"])
            given = ", ".join([*(f"P{i} p{i}" for i in range(count)), "Out out"])
            return f"template <{kinds}> WARPSMITH_INLINE void {self.name}({given})"
        mark = "" if shared else " WARPSMITH_RESTRICT"
        pointers = [f"const Scalar *{mark} p{i}" for i in range(count)]
        return f"inline void {self.name}({', '.join([*pointers, f'Scalar *{mark} out'])}) noexcept"

    def _used(self, i: int) -> bool:
        return any(f"p{i}" in line for line in self.w.lines)

    def _expression(self, role: str, e, *, acc: bool) -> str:
        used = expressions.loads_of(e)
        names = {i: f"v{i}" for i in used}
        parameters = (["T acc"] if acc else []) + [f"T v{i}" for i in used]
        return (
            f"template <class T> WARPSMITH_INLINE T {self.name}_{role}({', '.join(parameters)}) noexcept {{\n"
            f"  return {expressions.text(e, names)};\n}}"
        )

    def _call(self, role: str, kind: str, values: dict[int, str], acc: str | None = None) -> str:
        e = self.n.body if role == "body" else self.n.finish
        if e == ACC:
            return acc or ""
        arguments = ([acc] if acc is not None else []) + [
            values[i] for i in expressions.loads_of(e)
        ]
        return f"{self.name}_{role}<{kind}>({', '.join(arguments)})"

    # -------------------------------------------------------------------------------- choices

    def _vector_dimension(self) -> int | None:
        """The parallel dimension that is contiguous in the result and contiguous or absent in every
        load; weights can be laid out so."""
        best = None
        for d in self.parallel:
            if self.out[d] != 1:
                continue
            inside = expressions.loads_of(self.n.body)
            fits = all(
                s[d] in (0, 1) or (self.combine and i in inside and self.weights(i) is not None)
                for i, s in enumerate(self.strides)
            )
            if fits and (best is None or self.n.extents[d] > self.n.extents[best]):
                best = d
        if best is None or self.n.extents[best] < 2:
            return None
        return best

    def _dot_dimension(self) -> int | None:
        found = [
            d for d in self.reduced
            if self.n.extents[d] >= self.lanes and all(s[d] in (0, 1) for s in self.strides)
            and any(s[d] for s in self.strides)
        ]  # fmt: skip
        return max(found, key=lambda d: self.n.extents[d]) if found else None

    def _shared_dimension(self, v: int) -> int | None:
        """A second parallel dimension along which some load with lanes stays the same."""
        lanes = [
            i for i, s in enumerate(self.strides) if s[v] and i in expressions.loads_of(self.n.body)
        ]
        found = [
            d for d in self.parallel
            if d != v and any(not self.strides[i][d] for i in lanes)
        ]  # fmt: skip
        return max(found, key=lambda d: min(self.n.extents[d], 64)) if found else None

    # ---------------------------------------------------------------------------------- loops

    def _place(self, strides: Sequence[int], dims: Sequence[int]) -> str:
        """Σ stride · i_d over dimensions, as C++; "" when it is 0."""
        terms = [f"i{d}" if strides[d] == 1 else f"{strides[d]} * i{d}" for d in dims if strides[d]]
        return " + ".join(terms)

    def _loop(self, d: int) -> None:
        self.w.open(f"for (std::ptrdiff_t i{d} = 0; i{d} < {self.n.extents[d]}; ++i{d})")

    def _scalars(self) -> None:
        n, w = self.n, self.w
        for d in self.parallel:
            self._loop(d)
        values = {
            i: f"p{i}[{self._place(s, range(len(n.extents))) or 0}]"
            for i, s in enumerate(self.strides)
        }
        target = f"out[{self._place(self.out, self.parallel) or 0}]"
        if expressions.has_rows(n):
            body = (
                expressions.text(n.body, values).replace("<T>", "<Scalar>").replace("T(", "Scalar(")
            )
            w(f"{target} = {body};")
        elif not self.combine:
            w(f"{target} = {self._call('body', 'Scalar', values)};")
        else:
            w(f"Scalar acc = {_START[self.combine]};")
            for d in self.reduced:
                self._loop(d)
            w(f"acc = {_COMBINE[self.combine]('acc', self._call('body', 'Scalar', values))};")
            w.close(len(self.reduced))
            self._end_scalar(target, values)
        w.close(len(self.parallel))

    def _end_scalar(self, target: str, values: dict[int, str]) -> None:
        fixed = {
            i: f"p{i}[{self._place(s, self.parallel) or 0}]" for i, s in enumerate(self.strides)
        }  # fmt: skip
        if self.n.scatter:
            self.w(f"{target} += acc;")
        else:
            self.w(f"{target} = {self._call('finish', 'Scalar', fixed, 'acc')};")

    # ------------------------------------------------------------------------------------ map

    def _map(self, v: int) -> None:
        n, w = self.n, self.w
        others = [d for d in self.parallel if d != v]
        for d in others:
            self._loop(d)
        extent, lanes = n.extents[v], self.lanes
        bases = {i: self._place(s, others) for i, s in enumerate(self.strides)}
        target = self._place(self.out, others)
        whole = extent // lanes * lanes
        used = expressions.loads_of(n.body)
        if whole:
            w.open(f"for (std::ptrdiff_t i{v} = 0; i{v} < {whole}; i{v} += W)")
            values = {i: self._lane_load(i, bases[i], f"i{v}", v, None) for i in used}
            w(f"store(out + {_sum(target, f'i{v}')}, {self._call('body', 'Vec', values)});")
            w.close()
        if extent > whole:
            count = extent - whole
            values = {i: self._lane_load(i, bases[i], str(whole), v, count) for i in used}
            w(
                f"store_some<{count}>(out + {_sum(target, str(whole))}, {self._call('body', 'Vec', values)});"
            )
        w.close(len(others))

    def _lane_load(self, i: int, base: str, at: str, v: int, some: int | None) -> str:
        if not self.strides[i][v]:
            return f"all<Vec>(p{i}[{base or 0}])"
        place = f"p{i} + {_sum(base, at)}"
        return f"load_some<{some}>({place})" if some else f"load({place})"

    # ------------------------------------------------------------------------------------ dot

    def _dot(self, r: int) -> None:
        n, w, lanes = self.n, self.w, self.lanes
        for d in self.parallel:
            self._loop(d)
        inner = [d for d in self.reduced if d != r]
        extent = n.extents[r]
        copies = 4 if extent >= 4 * lanes else 1
        step, whole = copies * lanes, extent // (copies * lanes) * copies * lanes
        for c in range(copies):
            w(f"Vec a{c} = all<Vec>({_START[self.combine]});")
        w(f"Scalar acc = {_START[self.combine]};")
        for d in inner:
            self._loop(d)
        outside = [*self.parallel, *inner]
        bases = {i: self._place(s, outside) for i, s in enumerate(self.strides)}
        used = expressions.loads_of(n.body)
        w.open(f"for (std::ptrdiff_t i{r} = 0; i{r} < {whole}; i{r} += {step})")
        for c in range(copies):
            values = {i: self._lane_load(i, bases[i], f"i{r} + {c * lanes}", r, None) for i in used}
            w(f"a{c} = {_COMBINE[self.combine](f'a{c}', self._call('body', 'Vec', values))};")
        w.close()
        if whole < extent:
            w.open(f"for (std::ptrdiff_t i{r} = {whole}; i{r} < {extent}; ++i{r})")
            values = {i: f"p{i}[{self._place(self.strides[i], [*outside, r]) or 0}]" for i in used}
            w(f"acc = {_COMBINE[self.combine]('acc', self._call('body', 'Scalar', values))};")
            w.close()
        w.close(len(inner))
        for c in range(1, copies):
            w(f"a0 = {_COMBINE[self.combine]('a0', f'a{c}')};")
        w.open("for (int lane = 0; lane < W; ++lane)")
        w(f"acc = {_COMBINE[self.combine]('acc', 'Scalar(a0[lane])')};")
        w.close()
        self._end_scalar(f"out[{self._place(self.out, self.parallel) or 0}]", {})
        w.close(len(self.parallel))

    # --------------------------------------------------------------------------------- blocks

    def _blocks(self, v: int) -> None:
        n, w, lanes = self.n, self.w, self.lanes
        u = self._shared_dimension(v)
        vectors = -(-n.extents[v] // lanes)
        m = self.machine
        k, parts = self._tiling(n.extents[v], m.wide if u is None else m.shared, u is None)
        positions = 1 if u is None else min(n.extents[u], max(1, m.registers // k), m.positions)
        self.parts = parts
        self._lay_out(v, k * parts)
        others = [d for d in self.parallel if d not in (v, u)]
        for d in others:
            self._loop(d)
        whole = vectors // k
        whole -= whole * k * lanes > n.extents[v]  # a last block with a part of a vector
        if whole:
            w.open(f"for (std::ptrdiff_t tile = 0; tile < {whole}; ++tile)")
            self._positions(v, u, others, k, 0, positions)
            w.close()
        if rest := vectors - whole * k:
            w.open("")
            w(f"constexpr std::ptrdiff_t tile = {whole};")
            self._positions(v, u, others, rest, n.extents[v] % lanes, positions, k)
            w.close()
        w.close(len(others))

    def _tiling(self, extent: int, most: int, alone: bool) -> tuple[int, int]:
        """(vectors of a block, blocks of a tile of the layout)."""
        unit = self.machine.unit
        if not unit:
            return min(-(-extent // self.lanes), most), 1
        if extent <= unit // 2:
            return 1, 1
        units, fits = (
            -(-extent // unit),
            (8, 7, 6, 5, 4) if alone and not self.machine.one_layout else (3, 2),
        )
        even = [f for f in fits if units % f == 0]  # else tiles of nearly the same size
        units = even[0] if even else -(-units // -(-units // fits[0]))
        vectors = units * unit // self.lanes
        k = max(d for d in range(1, most + 1) if vectors % d == 0)
        return k, vectors // k

    def _lay_out(self, v: int, k: int) -> None:
        """Weights with lanes in the order of the blocks: …, tile, reduction, k · lanes."""
        n = self.n
        self.tiled: dict[int, tuple[dict[int, int], int]] = {}
        block = k * self.lanes
        if self._halved(v):
            block = self.machine.unit // 2
        tiles = -(-n.extents[v] // block)
        for i in expressions.loads_of(n.body):
            array = self.weights(i)
            if array is None or not self.strides[i][v]:
                continue
            strides = self.strides[i]
            first = [d for d in self.parallel if d != v and strides[d]]
            last = [d for d in self.reduced if strides[d]]
            index = np.full([1] * (len(first) + len(last) + 1), n.loads[i].offset)
            for axis, d in enumerate([*first, *last, v]):
                steps = np.arange(n.extents[d]) * strides[d]
                index = index + steps.reshape([-1 if j == axis else 1 for j in range(index.ndim)])
            values = array[index]
            padded = np.zeros((*values.shape[:-1], tiles * block))
            padded[..., : n.extents[v]] = values
            split = padded.reshape(*values.shape[:-1], tiles, block)
            split = np.moveaxis(split, -2, len(first))
            self.layouts[i] = np.ascontiguousarray(split).reshape(-1)
            steps_of: dict[int, int] = {}
            step = block
            for d in reversed(last):
                steps_of[d], step = step, step * n.extents[d]
            tile_step = step
            step *= tiles
            for d in reversed(first):
                steps_of[d], step = step, step * n.extents[d]
            self.tiled[i] = (steps_of, tile_step)

    def _positions(
        self, v: int, u: int | None, others, k: int, part: int, count: int, tile_k: int = 0
    ):
        """The block's code for each stretch of the second dimension."""
        w, n = self.w, self.n
        tile = (tile_k or k) * self.lanes
        if u is None:
            self._block(v, u, others, k, part, 1, tile)
            return
        whole = n.extents[u] // count * count
        if whole:
            w.open(f"for (std::ptrdiff_t i{u} = 0; i{u} < {whole}; i{u} += {count})")
            self._block(v, u, others, k, part, count, tile)
            w.close()
        if rest := n.extents[u] - whole:
            w.open("")
            w(f"constexpr std::ptrdiff_t i{u} = {whole};")
            self._block(v, u, others, k, part, rest, tile)
            w.close()

    def _block(self, v, u, others, k: int, part: int, count: int, tile: int) -> None:
        """count × k accumulators: reduce, finish, store. `part`: lanes of the last vector, 0 for all."""
        w, n, combine = self.w, self.n, self.combine
        for p in range(count):
            w(" ".join(f"Vec a{p}_{j} = all<Vec>({_START[combine]});" for j in range(k)))
        self._reduce(v, u, others, k, part, count, tile)
        fixed = [*others, *([u] if u is not None else [])]
        ends = expressions.loads_of(n.finish) if n.finish != ACC else []
        for p in range(count):
            for j in range(k):
                some = part if part and j == k - 1 else None
                values = {i: self._value(i, v, u, fixed, p, j, tile, some) for i in ends}
                result = (
                    self._call("finish", "Vec", values, f"a{p}_{j}")
                    if not n.scatter
                    else f"a{p}_{j}"
                )
                shift = (self.out[u] * p if u is not None else 0) + j * self.lanes
                at = f"out + {_sum(self._place(self.out, fixed), f'tile * {tile}', shift)}"
                if n.scatter:
                    loaded = f"load_some<{some}>({at})" if some else f"load({at})"
                    result = f"{loaded} + {result}"
                w(f"store_some<{some}>({at}, {result});" if some else f"store({at}, {result});")

    def _reduce(self, v, u, others, k: int, part: int, count: int, tile: int) -> None:
        """The loops of the reduction; few accumulators are several times there, taken in turns."""
        w, last = self.w, self.reduced[-1] if self.reduced else None
        extent = self.n.extents[last] if last is not None else 1
        turns = min(extent, -(-self.machine.chains // (count * k)))
        if u is not None or turns < 2:
            for d in self.reduced:
                self._loop(d)
            self._inner(v, u, others, k, part, count, tile)
            w.close(len(self.reduced))
            return
        names = [(p, j) for p in range(count) for j in range(k)]
        for t in range(1, turns):
            w(" ".join(f"Vec a{p}_{j}_{t} = a{p}_{j};" for p, j in names))
        for d in self.reduced[:-1]:
            self._loop(d)
        whole = extent // turns * turns
        w.open(f"for (std::ptrdiff_t i{last} = 0; i{last} < {whole}; i{last} += {turns})")
        for t in range(turns):
            w.open("")
            self._inner(v, u, others, k, part, count, tile, (last, t))
            w.close()
        w.close()
        if whole < extent:
            w.open(f"for (std::ptrdiff_t i{last} = {whole}; i{last} < {extent}; ++i{last})")
            self._inner(v, u, others, k, part, count, tile)
            w.close()
        w.close(len(self.reduced) - 1)
        for t in range(1, turns):
            for p, j in names:
                w(f"a{p}_{j} = {_COMBINE[self.combine](f'a{p}_{j}', f'a{p}_{j}_{t}')};")

    def _inner(self, v, u, others, k, part, count, tile, turn=None) -> None:
        """One step of the reduction for all accumulators; each load is made once."""
        w, n = self.w, self.n
        dims = [*others, *self.reduced, *([u] if u is not None else [])]
        names: dict[tuple[int, int, int], str] = {}
        for i in expressions.loads_of(n.body):
            moves_u = u is not None and self._step(i, u)
            moves_v = bool(self.strides[i][v])
            for p in range(count if moves_u else 1):
                for j in range(k if moves_v else 1):
                    some = part if part and j == k - 1 else None
                    name = f"v{i}_{p}_{j}"
                    w(f"const Vec {name} = {self._value(i, v, u, dims, p, j, tile, some, turn)};")
                    for pp in range(count) if not moves_u else [p]:
                        for jj in range(k) if not moves_v else [j]:
                            names[i, pp, jj] = name
        product = n.body.op == "mul" and n.body.args == (load(0), load(1))
        suffix = f"_{turn[1]}" if turn and turn[1] else ""
        for p in range(count):
            for j in range(k):
                values = {i: names[i, p, j] for i in expressions.loads_of(n.body)}
                to = f"a{p}_{j}{suffix}"
                if product and self.combine == "add":
                    w(f"{to} += {values[0]} * {values[1]};")
                else:
                    value = self._call("body", "Vec", values)
                    w(f"{to} = {_COMBINE[self.combine](to, value)};")

    def _step(self, i: int, d: int) -> int:
        return self.tiled[i][0].get(d, 0) if i in self.tiled else self.strides[i][d]

    def _halved(self, v: int) -> bool:
        """Are the weights of the vector dimension half a vector?"""
        return self.n.extents[v] <= self.machine.unit // 2 < self.lanes

    def _value(
        self, i, v, u, dims, p: int, j: int, tile: int, some: int | None,
        more: tuple[int, int] | None = None,
    ) -> str:  # fmt: skip
        """Load i at position p and vector j of a block; more: (dimension, so many steps further)."""
        if i in self.tiled and i in self.layouts:
            steps, tile_step = self.tiled[i]
            terms = [f"{steps[d]} * i{d}" for d in dims if steps.get(d)]
            shift = (steps.get(u, 0) * p if u is not None else 0) + j * self.lanes
            if more is not None:
                shift += steps.get(more[0], 0) * more[1]
            place = [f"{tile_step} * tile"]
            if self.parts > 1:
                place = [f"{tile_step} * (tile / {self.parts})", f"{tile} * (tile % {self.parts})"]
            kind = f"load_some<{self.machine.unit // 2}>" if self._halved(v) else "load"
            return f"{kind}(p{i} + {_sum(*terms, *place, shift)})"
        strides = self.strides[i]
        shift = strides[u] * p if u is not None else 0
        if more is not None:
            shift += strides[more[0]] * more[1]
        if not strides[v]:
            return f"all<Vec>(p{i}[{_sum(self._place(strides, dims), shift)}])"
        at = f"p{i} + {_sum(self._place(strides, dims), f'tile * {tile}', shift + j * self.lanes)}"
        return f"load_some<{some}>({at})" if some else f"load({at})"


def _sum(*terms: str | int) -> str:
    kept = [str(t) for t in terms if t not in ("", 0)]
    return " + ".join(kept) or "0"
