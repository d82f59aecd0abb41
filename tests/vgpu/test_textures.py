"""Textures and surfaces: every geometry, format, filter and address mode against an oracle."""
# SPDX-License-Identifier: Apache-2.0

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench
from texture_oracle import face, sample

from warpsmith.errors import DtypeError, ShapeError, UnknownName, UsageError
from warpsmith.vgpu import Surface, Texture

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual
RNG = np.random.default_rng(5)
F = np.float32


@pytest.fixture(scope="module")
def run():
    return Bench(cuda_file("textures.cu"))


def texels(shape, dtype="float32"):
    if np.dtype(dtype).kind == "f":
        return RNG.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def places(size, normalized, count=64):
    """Coordinates in, at the edges of, and far outside an axis, exact eighths among them."""
    inside = RNG.uniform(-0.2, 1.2, count - 16) * size
    exact = np.array([0, 0.125, 0.5, 0.625, size / 2, size - 0.5, size - 0.125, size,
                      -0.5, -3.75, -size, 2.25 * size, 5 * size + 0.375, -7.625, 1e6, -1e6])  # fmt: skip
    x = np.concatenate([inside, exact])
    return (x / size if normalized else x).astype(F)


def fetched(run, kernel, texture, *coordinates, dtype=F):
    n = len(coordinates[0])
    out = np.zeros((n, 4), dtype)
    run.right(kernel, (-(-n // 48),), (48,), texture, *coordinates, out, n)
    return out


MODES = [("clamp", False), ("border", False), ("clamp", True), ("border", True), ("wrap", True),
         ("mirror", True)]  # fmt: skip


@pytest.mark.parametrize("filter", ["nearest", "linear"])
@pytest.mark.parametrize(("address", "normalized"), MODES)
@pytest.mark.parametrize("shape", [(7, 10, 4), (5, 8), (1, 3, 2)])
def test_2d(run, filter, address, normalized, shape):
    array = texels(shape)
    options = {"filter": filter, "address": address, "normalized": normalized,
               "border": (0.5, -1.0, 2.0, 7.0)}  # fmt: skip
    x, y = places(shape[1], normalized), RNG.permutation(places(shape[0], normalized))
    out = fetched(run, "sample_2d", Texture(array, "2d", **options), x, y)
    want = np.array([sample(array, 2, at, **options) for at in zip(x, y)])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("filter", ["nearest", "linear"])
@pytest.mark.parametrize(("address", "normalized"), [("clamp", False), ("wrap", True)])
def test_1d_and_3d(run, filter, address, normalized):
    options = {"filter": filter, "address": address, "normalized": normalized}
    line, box = texels((13,)), texels((4, 6, 5, 2))
    x = places(13, normalized)
    out = fetched(run, "sample_1d", Texture(line, **options), x)
    np.testing.assert_array_equal(out, [sample(line, 1, (v,), **options) for v in x])
    axes = [RNG.permutation(places(n, normalized)) for n in (5, 6, 4)]
    out = fetched(run, "sample_3d", Texture(box, "3d", **options), *axes)
    np.testing.assert_array_equal(out, [sample(box, 3, at, **options) for at in zip(*axes)])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("filter", ["nearest", "linear"])
def test_normalized_reads(run, dtype, channels, filter):
    array = texels((6, 9, channels), dtype)
    array.flat[0], array.flat[-1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    options = {"filter": filter, "read": "normalized"}
    x, y = places(9, False), RNG.permutation(places(6, False))
    out = fetched(run, "sample_2d", Texture(array, "2d", **options), x, y)
    np.testing.assert_array_equal(out, [sample(array, 2, at, **options) for at in zip(x, y)])
    assert out.max() <= 1
    assert out.min() >= -1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_integers_as_they_are(run, dtype, channels):
    array = texels((6, 9, channels), dtype)
    signed = np.dtype(dtype).kind == "i"
    x, y = places(9, False), RNG.permutation(places(6, False))
    kernel = "sample_2d_int" if signed else "sample_2d_uint"
    out = fetched(run, kernel, Texture(array, "2d"), x, y, dtype=np.int32 if signed else np.uint32)
    np.testing.assert_array_equal(out, [sample(array, 2, at) for at in zip(x, y)])


def test_halves(run):
    array = texels((6, 9, 2), "float16")
    x, y = places(9, False), places(6, False)
    texture = Texture(array, "2d", filter="linear")
    want = np.array([sample(array, 2, at, filter="linear") for at in zip(x, y)], F)
    np.testing.assert_array_equal(fetched(run, "sample_2d", texture, x, y), want)
    out = np.zeros(len(x), F)
    run.right("half_2d", (2,), (32,), texture, x, y, out, len(x))
    half = want.astype(np.float16).astype(F)
    np.testing.assert_array_equal(out, half[:, 0] + 2 * half[:, 1])


def test_linear_memory_is_zero_outside(run):
    array, x = texels((10, 4)), np.array([0, 9, 10, -1, 4, 1 << 30, -(1 << 31)], np.int32)
    out = fetched(run, "fetch_1d", Texture(array, "1d"), x)
    want = np.array([array[i] if 0 <= i < 10 else np.zeros(4) for i in x], F)
    np.testing.assert_array_equal(out, want)
    bits = fetched(run, "fetch_1d_int", Texture(array, "1d"), x, dtype=np.int32)
    np.testing.assert_array_equal(bits.view(F), want)  # a double is read as two of these


@pytest.mark.parametrize("filter", ["nearest", "linear"])
def test_layers(run, filter):
    lines, images = texels((3, 11, 2)), texels((4, 5, 6))
    layer = RNG.integers(-1, 6, 64).astype(np.int32)
    x, y = places(11, False), places(5, False)
    out = fetched(run, "sample_a1d", Texture(lines, "a1d", filter=filter), x, layer)
    at = np.minimum(layer.view(np.uint32), 2)  # past the last layer means the last
    np.testing.assert_array_equal(
        out, [sample(lines[k], 1, (v,), filter=filter) for v, k in zip(x, at)]
    )
    out = fetched(run, "sample_a2d", Texture(images, "a2d", filter=filter), x, y, layer)
    at = np.minimum(layer.view(np.uint32), 3)
    np.testing.assert_array_equal(
        out, [sample(images[k], 2, v, filter=filter) for *v, k in zip(x, y, at)]
    )


@pytest.mark.parametrize("filter", ["nearest", "linear"])
def test_cubes(run, filter):
    cube, cubes = texels((6, 8, 8, 4)), texels((2, 6, 4, 4))
    d = RNG.standard_normal((3, 96)).astype(F)
    d[:, :6] = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]).T
    options = {"filter": filter, "normalized": True}
    out = fetched(run, "sample_cube", Texture(cube, "cube", **options), *d)
    for row, direction in zip(out, d.T):
        number, s, t = face(direction)
        np.testing.assert_array_equal(row, sample(cube[number], 2, (s, t), **options))
    layer = RNG.integers(0, 2, 96).astype(np.int32)
    out = fetched(run, "sample_acube", Texture(cubes, "acube", **options), *d, layer)
    for row, direction, k in zip(out, d.T, layer):
        number, s, t = face(direction)
        np.testing.assert_array_equal(row, sample(cubes[k, number], 2, (s, t), **options))


def test_levels_of_detail(run):
    levels = [texels((8 >> i, 16 >> i or 1)) for i in range(4)]
    x, y = places(16, True), RNG.permutation(places(8, True))
    detail = RNG.uniform(-1, 4, 64).astype(F)
    detail[:6] = 0, 0.5, 1, 1.5, 2.49, 9
    options = {"filter": "linear", "normalized": True, "address": "wrap"}

    def at(level, i):
        return sample(levels[level], 2, (x[i], y[i]), **options)

    out = fetched(run, "lod_2d", Texture(levels, "2d", **options), x, y, detail)
    clamped = np.clip(detail, 0, 3)
    want = [at(int(np.floor(v + F(0.5))), i) for i, v in enumerate(clamped)]
    np.testing.assert_array_equal(out, want)
    smooth = Texture(levels, "2d", mip_filter="linear", mip_range=(0.25, 2.5), **options)
    out = fetched(run, "lod_2d", smooth, x, y, detail)
    for i, v in enumerate(np.clip(detail, F(0.25), F(2.5))):
        low = int(np.floor(v))
        part = F(np.floor((v - F(low)) * 256 + F(0.5)) / 256)
        high = at(low + 1, i) if part else 0
        np.testing.assert_array_equal(out[i], (F(1) - part) * at(low, i) + part * high)


def test_gradients_choose_the_level(run):
    levels = [np.full((16 >> i, 16 >> i), i, F) for i in range(5)]
    texture = Texture(levels, "2d", normalized=True, mip_filter="linear")
    steps = np.array([1, 2, 3, 8, 0.1, 16], F) / 16  # texels of level 0 between neighbors
    zero = np.zeros((6, 2), F)
    dx = np.stack([steps, 0 * steps], 1)
    x = np.full(6, 0.5, F)
    out = fetched(run, "grad_2d", texture, x, x, dx, zero)[:, 0]
    np.testing.assert_allclose(out, np.clip(np.log2(steps * 16), 0, 4), atol=1 / 256)
    np.testing.assert_array_equal(fetched(run, "grad_2d", texture, x, x, zero, dx)[:, 0], out)


def test_gather_takes_the_four_texels_of_a_linear_filter(run):
    array = texels((6, 9, 2))
    x, y = RNG.uniform(1, 8, 32).astype(F), RNG.uniform(1, 5, 32).astype(F)
    out = fetched(run, "gather_2d", Texture(array, "2d"), x, y)
    i, j = np.floor(x - F(0.5)).astype(int), np.floor(y - F(0.5)).astype(int)
    want = np.stack([array[j + b, i + a, 1] for a, b in ((0, 1), (1, 1), (1, 0), (0, 0))], 1)
    np.testing.assert_array_equal(out, want)


def test_texel_offsets(run):
    array = texels((6, 9, 4))
    x, y = places(9, False), places(6, False)
    out = fetched(run, "shifted_2d", Texture(array, "2d"), x, y)
    moved = [sample(array, 2, (np.floor(a) + F(2.5), np.floor(b) - F(0.5))) for a, b in zip(x, y)]
    np.testing.assert_array_equal(out, moved)


def test_srgb(run):
    array = np.arange(256, dtype=np.uint8).reshape(8, 8, 4)
    y, x = (v.ravel().astype(F) + F(0.5) for v in np.mgrid[:8, :8])
    out = fetched(run, "sample_2d", Texture(array, "2d", read="normalized", srgb=True), x, y)
    c = array.reshape(64, 4) / 255
    want = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    want[:, 3] = c[:, 3]
    np.testing.assert_allclose(out, want, rtol=1e-6)


def test_not_a_number_and_infinity(run):
    array = texels((6, 9))
    x = np.array([np.nan, np.inf, -np.inf, 3e38], F)
    out = fetched(run, "sample_2d", Texture(array, "2d", filter="linear"), x, np.full(4, 1.5, F))
    assert np.isfinite(out[1:3, 0]).all()


def test_queries(run):
    levels = [np.zeros((4, 10, 2), np.int16), np.zeros((2, 5, 2), np.int16)]
    out = np.zeros(8, np.int32)
    run.right("query", (1,), (1,), Texture(levels, "2d", normalized=True), out)
    assert list(out) == [10, 4, 1, 2, 1, 0x10D8, 0x10B2, 5]


# ------------------------------------------------------------------------------------ surfaces


def test_surface_copy(run):
    image, out = texels((19, 37, 4), "uint8"), np.zeros((19, 37, 4), np.uint8)
    run.right("copy_surface", (3, 2), (16, 16), Surface(image, "2d"), Surface(out, "2d"), 37, 19)
    assert np.array_equal(out, image[..., ::-1])


def test_surface_shapes(run):
    line, seen = texels((50,)), np.zeros(50, F)
    before = line.copy()
    run.right("surface_1d", (2,), (32,), Surface(line), seen, 50)
    assert np.array_equal(seen, before)
    assert np.array_equal(line, 2 * before)
    box = texels((3, 4, 5), "int16")
    want = box + np.int16(100)
    run.right("surface_3d", (1,), (8, 8, 4), Surface(box), 5, 4, 3)
    assert np.array_equal(box, want)
    layers = np.zeros((3, 4, 5, 2), F)
    run.right("surface_layers", (3,), (8, 8), Surface(layers, "a2d"), 5, 4)
    k, y, x = np.mgrid[:3, :4, :5]
    assert np.array_equal(layers[..., 0], x + 10 * y)
    assert np.array_equal(layers[..., 1], k)


def test_surface_outside(run):
    image = texels((4, 6))
    before = image.copy()
    x, y = np.array([0, 5, 6, -1, 3, 9], np.int32), np.array([0, 3, 1, 2, -5, 7], np.int32)
    clamp, zero = np.zeros(6, F), np.zeros(6, F)
    run.right("surface_outside", (1,), (6,), Surface(image), x, y, clamp, zero, 6)
    assert np.array_equal(clamp, before[np.clip(y, 0, 3), np.clip(x, 0, 5)])
    inside = (x >= 0) & (x < 6) & (y >= 0) & (y < 4)
    assert np.array_equal(zero, np.where(inside, clamp, 0))
    before[y[inside], x[inside]] += F(1000)
    assert np.array_equal(image, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_surface_reductions(run, workers):
    image = np.zeros((3, 5), np.int32)
    run.right("surface_add", (4,), (50,), Surface(image), 200, workers=workers)
    i = np.arange(200)
    assert list(image[0]) == [i[i % 5 == k].sum() for k in range(5)]
    assert list(image[1]) == [-i[i % 5 == k].max() for k in range(5)]
    bits = np.bitwise_or.reduce(np.uint32(1) << (i.reshape(40, 5) % 32).astype(np.uint32), axis=0)
    assert np.array_equal(image[2].view(np.uint32), bits)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_formatted_stores(run, dtype):
    image = np.zeros((2, 6, 2), dtype)
    run.right("surface_formatted", (1,), (32,), Surface(image, "2d"), 6)
    assert np.array_equal(image[1, :, 0], np.arange(6) / 2)
    assert not image[0].any()
    assert np.array_equal(image[1, :, 1], -np.arange(6) / 2)


def test_a_surface_writes_what_a_texture_reads(run):
    image = np.zeros((19, 37, 4), np.uint8)
    source = texels((19, 37, 4), "uint8")
    run.right("copy_surface", (3, 2), (16, 16), Surface(source, "2d"), Surface(image, "2d"), 37, 19)
    y, x = (v.ravel().astype(F) for v in np.mgrid[:19, :37])
    out = fetched(run, "sample_2d_uint", Texture(image, "2d"), x, y, dtype=np.uint32)
    assert np.array_equal(out.reshape(19, 37, 4), source[..., ::-1])


# -------------------------------------------------------------------------------------- faults


def fault(run, kernel, *args):
    result = run(kernel, (1,), (32,), *args)
    assert result.fault is not None
    return result.fault


def test_fault_outside_of_a_surface(run):
    found = fault(run, "surface_trap", Surface(np.zeros((4, 6), F)), 24, 1)
    assert found.kind == "out-of-bounds"
    assert found.thread == (3, 0, 0)
    assert found.source_file == "kernel.cu"
    assert "x = 24 bytes, y = 1" in found.message
    found = fault(run, "surface_trap", Surface(np.zeros((4, 6), F)), 4, -1)
    assert found.kind == "out-of-bounds"
    assert "y = -1" in found.message


def test_fault_misaligned(run):
    assert fault(run, "surface_trap", Surface(np.zeros((4, 6), F)), 5, 1).kind == "misaligned"


def test_fault_wrong_handles(run):
    x, out = np.zeros(32, F), np.zeros((32, 4), F)
    closed = Texture(texels((4, 4)))
    handle = closed.handle
    closed.close()
    for given, said in (
        (12345, "no texture"), (handle, "no texture"), (Surface(texels((4, 4))), "surface's"),
        (Texture(texels((4, 4, 4))), "2d from what is 3d"),
        (Texture(texels((4, 4), "int32")), "floats from a texture of integers"),
    ):  # fmt: skip
        found = fault(run, "sample_2d", given, x, x, out, 32)
        assert found.kind == "illegal-access"
        assert said in found.message
    found = fault(run, "surface_trap", Texture(np.zeros((4, 6), F)), 0, 0)
    assert "needs a surface's" in found.message


def test_a_closed_texture_has_no_handle(run):
    texture, x = Texture(texels((4, 4))), np.zeros(32, F)
    texture.close()
    with pytest.raises(UsageError, match="closed"):
        fetched(run, "sample_2d", texture, x, x)


# --------------------------------------------------------------------------------- wrong usage

MISUSE = [
    (DtypeError, {"array": np.zeros((4, 4))}),
    (ShapeError, {"array": np.zeros((4, 4, 3), F), "kind": "2d"}),
    (ShapeError, {"array": np.zeros((5, 4, 4), F), "kind": "cube"}),
    (ShapeError, {"array": np.zeros((2, 2, 2, 2), F)}),
    (ShapeError, {"array": [np.zeros((4, 4), F), np.zeros((3, 2), F)]}),
    (UsageError, {"array": np.zeros((4, 8), F)[:, ::2]}),
    (UnknownName, {"array": np.zeros((4, 4), F), "filter": "cubic"}),
    (UnknownName, {"array": np.zeros((4, 4), F), "address": "repeat"}),
    (UsageError, {"array": np.zeros((4, 4), F), "address": "wrap"}),
    (UsageError, {"array": np.zeros((4, 4), np.int32), "filter": "linear"}),
    (UsageError, {"array": np.zeros((4, 4), F), "read": "normalized"}),
    (UsageError, {"array": np.zeros((4, 4), F), "srgb": True}),
    (UsageError, {"array": np.zeros((6, 4, 4), F), "kind": "cube"}),
    (UsageError, {"array": np.zeros((4, 4), F), "border": (0,) * 5}),
]


@pytest.mark.parametrize(("error", "given"), MISUSE, ids=itertools.count())
def test_misuse(error, given):
    with pytest.raises(error):
        Texture(**given)


def test_a_read_only_surface():
    array = np.zeros((4, 4), F)
    array.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        Surface(array)


def test_counters(run):
    x, out = np.zeros(40, F), np.zeros((40, 4), F)
    result = run.right("sample_2d", (1,), (40,), Texture(texels((4, 4))), x, x, out, 40)
    assert result.counters.pipe_instructions["memory"] >= 2 * 4


REFERENCES = """.version 7.0
.target sm_80
.address_size 64
.global .texref picture = { filter_mode = nearest, addr_mode_0 = clamp_to_edge };
.visible .entry look(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .f32 %f<5>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f0, %r1;
  tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [picture, {%f0, %f0}];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""


def test_texture_references():
    bench = Bench(REFERENCES)
    out = np.zeros(4, F)
    assert "Module.bind" in bench("look", (1,), (4,), out).fault.message
    array = texels((4, 4))
    bench.module.bind("picture", Texture(array))
    bench.right("look", (1,), (4,), out)
    assert np.array_equal(out, array.diagonal())
