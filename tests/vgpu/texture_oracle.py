"""What a texture fetch gives, written again from the CUDA C++ Programming Guide, one axis at a time."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools

import numpy as np

F = np.float32


def index(i: int, n: int, mode: str) -> int | None:
    """The texel that index i means along an axis of n; None for the border."""
    if 0 <= i < n:
        return i
    if mode == "clamp":
        return min(max(i, 0), n - 1)
    if mode == "wrap":
        return i % n
    if mode == "mirror":
        period = list(range(n)) + list(range(n - 1, -1, -1))
        return period[i % (2 * n)]
    return None


def four(texel, is_float: bool):
    """A texel with the channels that it has not: 0, 0, 1."""
    values = list(np.atleast_1d(texel)) + [0, 0, 0, 1][len(np.atleast_1d(texel)) :]
    return np.array(values, F if is_float else np.int64)


def converted(array: np.ndarray, read: str) -> np.ndarray:
    if read == "element":
        return array.astype(F) if array.dtype.kind == "f" else array.astype(np.int64)
    most = np.iinfo(array.dtype).max
    return np.maximum(array.astype(F) / F(most), F(-1))


def sample(array, dims, at, *, filter="nearest", address="clamp", normalized=False, read="element",
           border=(0, 0, 0, 0)):  # fmt: skip
    """array: (…, H, W[, C]) of `dims` spatial axes; at: x, y, z in float32."""
    values = converted(array, read)
    is_float = values.dtype.kind == "f"
    sizes = array.shape[:dims][::-1]  # x first
    modes = (address,) * dims if isinstance(address, str) else address
    position = [F(x) * F(n) if normalized else F(x) for x, n in zip(at, sizes)]
    if filter == "nearest":
        corners = [([int(np.floor(p)) for p in position], F(1))]
    else:
        low = [int(np.floor(p - F(0.5))) for p in position]
        part = [np.floor((p - F(0.5) - F(b)) * 256 + F(0.5)) / 256 for p, b in zip(position, low)]
        corners = []
        for last_first in itertools.product((0, 1), repeat=dims):
            up = last_first[::-1]  # x changes fastest, as in the Guide
            share = F(1)
            for u, a in zip(up, part):
                share = F(share * (F(a) if u else F(1) - F(a)))
            corners.append(([b + u for b, u in zip(low, up)], share))
    total = np.zeros(4, F if is_float else np.int64)
    for where, share in corners:
        resolved = [index(i, n, m) for i, n, m in zip(where, sizes, modes)]
        if share == 0:
            continue
        if None in resolved:
            texel = np.array(list(border) + [0] * (4 - len(border)), total.dtype)
        else:
            texel = four(values[tuple(resolved[::-1])], is_float)
        total = total + (share * texel if is_float else texel)
    return total


def face(direction):
    """(face, s, t) that a direction meets: OpenGL 4.6, table 8.19."""
    x, y, z = (F(v) for v in direction)
    table = {
        0: (-z, -y, x), 1: (z, -y, x), 2: (x, z, y), 3: (x, -z, y), 4: (x, -y, z), 5: (-x, -y, z),
    }  # fmt: skip
    axis = int(np.argmax([abs(x), abs(y), abs(z)]))
    number = 2 * axis + int((x, y, z)[axis] < 0)
    sc, tc, ma = table[number]
    return number, (sc / abs(ma) + F(1)) / F(2), (tc / abs(ma) + F(1)) / F(2)
