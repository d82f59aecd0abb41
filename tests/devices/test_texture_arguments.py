"""Textures and surfaces of tensors as kernel arguments, and the descriptions that CUDA gets."""
# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")

import warpsmith as ws  # noqa: E402
from warpsmith.devices import textures  # noqa: E402
from warpsmith.devices.launch import launch  # noqa: E402
from warpsmith.errors import DtypeError, KernelFault, LaunchError, ShapeError, UsageError  # noqa: E402
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains.cuda import compile_source  # noqa: E402
from warpsmith.vgpu.textures import extent  # noqa: E402

SOURCE = """
extern "C" __global__ void sample(cudaTextureObject_t t, const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(t, x[i], y[i]);
}
extern "C" __global__ void levels(cudaTextureObject_t t, const float* detail, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2DLod<float>(t, 0.3f, 0.6f, detail[i]);
}
extern "C" __global__ void fetch(cudaTextureObject_t t, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<float>(t, i - 2);
}
extern "C" __global__ void layers(cudaTextureObject_t t, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2DLayered<float>(t, i % 4 + 0.5f, i / 4 % 3 + 0.5f, i / 12);
}
extern "C" __global__ void cube(cudaTextureObject_t t, float* out, int n) {
  int i = threadIdx.x;
  float sign = i & 1 ? -1.0f : 1.0f;
  if (i < n) out[i] = texCubemap<float>(t, i / 2 == 0 ? sign : 0.1f, i / 2 == 1 ? sign : 0.1f, i / 2 == 2 ? sign : 0.1f);
}
extern "C" __global__ void invert(cudaSurfaceObject_t s, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  surf2Dwrite((unsigned char)(255 - surf2Dread<unsigned char>(s, x, y)), s, x, y);
}
"""
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.virtual),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


@pytest.fixture(scope="module")
def kernels():
    made = compile_source(SOURCE, get("h100"), name="textures.cu")
    return {a.kernel: a for a in made}


def run(kernels, name, grid, *args):
    launch(kernels[name], grid, 32, 0, args)


@pytest.mark.parametrize("device", DEVICES)
def test_a_linear_filter(kernels, device):
    image = torch.arange(20.0, device=device).reshape(4, 5)
    x = torch.tensor([0.5, 1.0, 2.5, 4.5, 9.0], device=device)
    y = torch.tensor([0.5, 1.0, 2.0, 3.5, -3.0], device=device)
    out = torch.zeros(5, device=device)
    run(kernels, "sample", 1, ws.texture(image, filter="linear"), x, y, out, 5)
    assert out.tolist() == [0, 3, 9.5, 19, 4]


@pytest.mark.parametrize("device", DEVICES)
def test_weights_have_eight_bits(kernels, device):
    """CUDA C++ Programming Guide, "Texture Fetching": 1.8 fixed point."""
    image = torch.tensor([[0.0, 1.0]], device=device)
    x = 0.5 + torch.arange(0, 1025, device=device) / 1024
    out = torch.zeros_like(x)
    run(kernels, "sample", 33, ws.texture(image, filter="linear"), x, 0 * x + 0.5, out, 1025)
    steps = out * 256
    assert torch.equal(steps, steps.round())
    assert (out - (x - 0.5)).abs().max() <= 1 / 512


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("address", "want"), [
    ("wrap", [3, 0, 1, 2, 3, 0]), ("mirror", [0, 0, 1, 2, 3, 3]), ("clamp", [0, 0, 1, 2, 3, 3]),
    ("border", [7, 0, 1, 2, 3, 7]),
])  # fmt: skip
def test_address_modes(kernels, device, address, want):
    image = torch.arange(4.0, device=device).reshape(1, 4)
    x = (torch.arange(-1, 5, device=device) + 0.5) / 4
    out = torch.zeros(6, device=device)
    made = ws.texture(image, address=address, normalized=True, border=(7,))
    run(kernels, "sample", 1, made, x, 0 * x + 0.5, out, 6)
    assert out.tolist() == want


@pytest.mark.parametrize("device", DEVICES)
def test_values_are_copied_until_updated(kernels, device):
    image = torch.zeros(2, 2, device=device)
    made = ws.texture(image)
    image += 5
    out, at = torch.zeros(1, device=device), torch.full((1,), 0.5, device=device)
    run(kernels, "sample", 1, made, at, at, out, 1)
    assert out.item() == 0
    made.update()
    run(kernels, "sample", 1, made, at, at, out, 1)
    assert out.item() == 5


@pytest.mark.parametrize("device", DEVICES)
def test_normalized_bytes(kernels, device):
    image = torch.tensor([[0, 51, 255]], dtype=torch.uint8, device=device)
    x = torch.arange(3, device=device) + 0.5
    out = torch.zeros(3, device=device)
    run(kernels, "sample", 1, ws.texture(image, read="normalized"), x, 0 * x, out, 3)
    torch.testing.assert_close(out.cpu(), torch.tensor([0, 0.2, 1.0]))


@pytest.mark.parametrize("device", DEVICES)
def test_mipmaps(kernels, device):
    chain = [torch.full((8 >> i, 8 >> i), float(i), device=device) for i in range(4)]
    detail = torch.tensor([0, 0.25, 1, 1.5, 2.75, 9], device=device)
    out = torch.zeros(6, device=device)
    run(
        kernels,
        "levels",
        1,
        ws.texture(chain, normalized=True, mip_filter="linear"),
        detail,
        out,
        6,
    )
    assert out.tolist() == [0, 0.25, 1, 1.5, 2.75, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_linear_memory(kernels, device):
    line, out = torch.arange(1.0, 7, device=device), torch.full((10,), -1.0, device=device)
    run(kernels, "fetch", 1, ws.texture(line), out, 10)
    assert out.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_layers_and_cubes(kernels, device):
    stack, out = torch.arange(24.0, device=device).reshape(2, 3, 4), torch.zeros(24, device=device)
    run(kernels, "layers", 1, ws.texture(stack, "a2d"), out, 24)
    assert torch.equal(out, stack.ravel())
    faces = torch.arange(6.0, device=device).reshape(6, 1, 1).repeat(1, 4, 4)
    out = torch.zeros(6, device=device)
    run(kernels, "cube", 1, ws.texture(faces, "cube", normalized=True), out, 6)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("device", DEVICES)
def test_surfaces_are_stored_back(kernels, device):
    image = torch.randint(0, 256, (7, 70), dtype=torch.uint8, device=device)
    want, made = 255 - image, ws.surface(image)
    run(kernels, "invert", (3, 7), made, 70, 7)
    assert torch.equal(image, 255 - want)
    made.store()
    assert torch.equal(image, want)


@pytest.mark.virtual
def test_numpy(kernels):
    image = np.arange(20, dtype=np.float32).reshape(4, 5)
    at, out = np.full(1, 2.5, np.float32), np.zeros(1, np.float32)
    run(kernels, "sample", 1, ws.texture(image), at, at, out, 1)
    assert out[0] == 12


@pytest.mark.virtual
def test_misuse(kernels):
    image = torch.zeros(4, 5)
    at = torch.zeros(1)
    with pytest.raises(DtypeError, match="cudaTextureObject_t"):
        run(kernels, "sample", 1, ws.texture(image), ws.texture(image), at, at, 1)
    with pytest.raises(LaunchError, match="contiguous"):
        ws.texture(image.T)
    with pytest.raises(LaunchError, match="surface"):
        ws.texture(image).store()
    with pytest.raises(DtypeError):
        ws.texture(image.double())
    with pytest.raises(ShapeError):
        ws.texture(torch.zeros(4, 4, 3), "2d")
    with pytest.raises(UsageError, match="normalized"):
        ws.texture(image, address="wrap")


@pytest.mark.virtual
def test_a_fault_names_the_coordinates(kernels):
    made = ws.surface(torch.zeros(7, 70, dtype=torch.uint8))
    with pytest.raises(KernelFault, match="x = 70 bytes, y = 0") as caught:
        run(kernels, "invert", (3, 7), made, 80, 7)
    assert caught.value.source.startswith("textures.cu:")


# What the driver would be told; the structures need no GPU.

SHAPES = [
    ("1d", (9,), (9, 0, 0), 0), ("2d", (4, 9, 2), (9, 4, 0), 8), ("3d", (3, 4, 9), (9, 4, 3), 0),
    ("a1d", (5, 9), (9, 0, 5), 1), ("a2d", (5, 4, 9), (9, 4, 5), 1), ("cube", (6, 8, 8), (8, 8, 6), 4),
    ("acube", (2, 6, 8, 8), (8, 8, 12), 5),
]  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize(("kind", "shape", "size", "flags"), SHAPES)
def test_array_descriptions(kind, shape, size, flags):
    driver = pytest.importorskip("cuda.bindings.driver")
    size_found = extent(kind, shape)
    found = textures.array_descriptor(driver, kind, size_found, "float32", False)
    assert (found.Width, found.Height, found.Depth) == size
    assert found.Flags == flags
    assert found.NumChannels == (2 if kind == "2d" else 1)
    tensor = torch.zeros(shape)
    copy = textures.copy_descriptor(driver, kind, tensor, size_found, driver.CUarray(0), False)
    assert copy.WidthInBytes * copy.Height * copy.Depth == tensor.numel() * 4
    back = textures.copy_descriptor(driver, kind, tensor, size_found, driver.CUarray(0), True)
    assert int(back.dstDevice) == tensor.data_ptr()
    assert back.srcMemoryType == driver.CUmemorytype.CU_MEMORYTYPE_ARRAY


@pytest.mark.plain
def test_sampling_descriptions():
    driver = pytest.importorskip("cuda.bindings.driver")
    made = textures.Sampling.of("linear", ("wrap", "mirror", "border"), True, "normalized", (1, 2),
                                True, "linear", 0.5, (0.0, 3.0))  # fmt: skip
    found = textures.sampling_descriptor(driver, made, "uint8")
    assert [int(m) for m in found.addressMode] == [0, 2, 3]
    assert found.flags == 0x12
    assert list(found.borderColor) == [1, 2, 0, 0]
    assert (found.mipmapLevelBias, found.maxMipmapLevelClamp) == (0.5, 3.0)
    plain = textures.Sampling.of(
        "nearest", "clamp", False, "element", (), False, "nearest", 0.0, (0.0, 9.0)
    )
    assert textures.sampling_descriptor(driver, plain, "int16").flags == 0x01
    assert textures.sampling_descriptor(driver, plain, "float16").flags == 0
