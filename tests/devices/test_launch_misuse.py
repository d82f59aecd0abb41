"""Every launch that cannot work is refused before it runs, naming what came and what to type."""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from warpsmith.devices import arguments, limits  # noqa: E402
from warpsmith.devices.launch import imitated, launch  # noqa: E402
from warpsmith.errors import DtypeError, LaunchError  # noqa: E402
from warpsmith.spec import Artifact, Parameter, Resources  # noqa: E402
from warpsmith.targets import get  # noqa: E402

pytestmark = pytest.mark.plain

PARAMETERS = (
    Parameter("pointer", "x", "float", 8, True),
    Parameter("pointer", "out", "half", 8),
    Parameter("scalar", "n", "int", 4),
    Parameter("scalar", "scale", "float", 4),
    Parameter("scalar", "count", "unsigned char", 1),
    Parameter("struct", "box", "Box", 12),
    Parameter("scalar", "key", "", 4),
    Parameter("struct", "origin", "float3", 12),
)
X = torch.zeros(8)
OUT = torch.zeros(8, dtype=torch.float16)
GOOD = {
    "x": X, "out": OUT, "n": 8, "scale": 0.5, "count": 3, "box": bytes(12), "key": 7,
    "origin": (1.0, 2.0, 3.0),
}  # fmt: skip

# Nothing here reaches the virtual GPU: an empty PTX would be refused with another error.
KERNEL = Artifact(
    "cuda",
    "_Z4fillPKf",
    "sm_90a",
    ".visible .entry _Z4fillPKf(\n)\n.maxntid 512, 1, 1\n{\n",
    PARAMETERS,
    Resources(registers=128, static_shared_bytes=1024, barriers=1),
)


def attempt(artifact=KERNEL, grid=1, block=32, shared_bytes=0, target="h100", args=None, **changes):
    given = list((GOOD | changes).values()) if args is None else args
    launch(artifact, grid, block, shared_bytes, given, target=get(target))


ARGUMENTS = {
    "one too few": ({"args": [X]}, LaunchError, r"fill takes 8 arguments, got 1\. .*const float\* x"),
    "none at all": ({"args": []}, LaunchError, "got 0"),
    "wrong dtype": ({"x": X.long()}, DtypeError, r"argument 0 \(x\).*const float\* x.*int64 tensor.*\.to\(torch\.float32\)"),
    "double for float": ({"x": X.double()}, DtypeError, "float64 tensor"),
    "float for half": ({"out": X}, DtypeError, r"argument 1 \(out\).*half\* out.*float16"),
    "numpy dtype": ({"x": np.zeros(4)}, DtypeError, "float64 tensor of shape \\(4,\\)"),
    "number for a pointer": ({"x": 3.0}, DtypeError, "takes a tensor, got float 3.0"),
    "address for a pointer": ({"x": X.data_ptr()}, DtypeError, "not its data_ptr"),
    "list for a pointer": ({"x": [1.0, 2.0]}, DtypeError, "takes a tensor, got list"),
    "tensor for a number": ({"n": torch.tensor(8)}, DtypeError, r"argument 2 \(n\).*\.item\(\)"),
    "float for an int": ({"n": 8.0}, DtypeError, r"takes int n, got float 8\.0\. Pass int\(8\.0\)"),
    "text for an int": ({"n": "8"}, DtypeError, "got str '8'"),
    "None for an int": ({"n": None}, DtypeError, "None is a null pointer"),
    "too large an int": ({"n": 2**31}, LaunchError, "2147483648 does not fit. Declare it long long"),
    "too small an int": ({"n": -(2**31) - 1}, LaunchError, "does not fit"),
    "negative unsigned": ({"count": -1}, LaunchError, "0 … 255; -1 does not fit"),
    "too large a float": ({"scale": 1e300}, LaunchError, "too large for it"),
    "complex for a float": ({"scale": 1j}, DtypeError, "takes float scale, got complex"),
    "short struct": ({"box": bytes(8)}, LaunchError, "Box box of 12 bytes, got 8 bytes"),
    "tuple for a struct": ({"box": (1, 2, 3)}, DtypeError, "ctypes.Structure"),
    "float for unknown bytes": ({"key": 0.5}, DtypeError, "struct.pack"),
    "wide int for unknown bytes": ({"key": 2**32}, DtypeError, "4 bytes of type unknown"),
    "short vector": ({"origin": (1.0, 2.0)}, DtypeError, "tuple of 3 numbers"),
    "text in a vector": ({"origin": (1.0, 2.0, "z")}, DtypeError, "got str 'z'"),
    "sparse tensor": ({"x": torch.eye(3).to_sparse()}, DtypeError, "to_dense"),
    "meta tensor": ({"x": torch.empty(3, device="meta"), "out": None}, LaunchError, "'cpu' tensors"),
    "two devices": ({"x": torch.empty(3, device="meta")}, LaunchError, r"meta: argument 0; cpu: argument 1.*\.to\(x\.device\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_wrong_arguments(case):
    changes, kind, words = ARGUMENTS[case]
    with pytest.raises(kind, match=words) as caught:
        attempt(**changes)
    assert str(caught.value).startswith("fill")


def plus(**changes):
    import dataclasses

    return dataclasses.replace(KERNEL, **changes)


SHAPES = {
    "no grid": ({"grid": 0}, r"grid is \(0, 1, 1\).*Skip the launch"),
    "negative grid": ({"grid": (1, -2)}, "1 or more"),
    "grid of floats": ({"grid": 8 / 2}, "grid is 4.0; expected an int"),
    "grid of four": ({"grid": (1, 1, 1, 1)}, "1 to 3 ints"),
    "empty grid": ({"grid": ()}, "1 to 3 ints"),
    "grid of bools": ({"grid": True}, "expected an int"),
    "too tall a grid": ({"grid": (1, 65536)}, r"grid\.y may be at most 65535"),
    "too wide a grid": ({"grid": 2**31}, r"grid\.x may be at most"),
    "too large a block": ({"block": 2048}, r"block\.x may be at most 1024"),
    "too deep a block": ({"block": (1, 1, 65)}, r"block\.z may be at most 64"),
    "too many threads": ({"block": (64, 32)}, "2048 threads; a block may have at most 1024"),
    "launch bounds": ({"block": 544}, "__launch_bounds__ allows 512"),
    "too many registers": (
        {"block": 1024, "artifact": plus(ptx="")}, r"1024 threads × 128 registers.*__launch_bounds__\(1024\)"),
    "too much shared memory": (
        {"shared_bytes": 232448}, "232448 dynamic \\+ 1024 static bytes.*at most 232448"),
    "more than an A100 has": (
        {"shared_bytes": 200_000, "target": "a100", "artifact": plus(arch="sm_80")}, "A100.*at most 166912"),
    "negative shared memory": ({"shared_bytes": -1}, "shared_bytes is -1"),
    "fractional shared memory": ({"shared_bytes": 0.5}, "expected an int of bytes"),
    "large static shared memory": (
        {"artifact": plus(resources=Resources(static_shared_bytes=50_000))}, "extern __shared__"),
    "another architecture": ({"target": "a100"}, r"compiled for sm_90a.*kernel\.artifact\('a100'\)"),
    "another block than Triton's": ({"block": 64, "artifact": plus(threads=128)}, "compiled for 128 threads"),
    "another block than required": (
        {"artifact": plus(ptx=".entry _Z4fillPKf(\n)\n.reqntid 64\n{")}, r"requires exactly \(64, 1, 1\)"),
    "cluster on Ampere": (
        {"artifact": plus(arch="sm_80", cluster=(2, 1, 1)), "grid": 2, "target": "a100"}, "has none"),
    "grid not of clusters": ({"artifact": plus(cluster=(2, 1, 1)), "grid": 3}, "not a multiple"),
    "too large a cluster": ({"artifact": plus(cluster=(16, 1, 1)), "grid": 16}, "at most 8"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_launches_that_do_not_fit(case):
    changes, words = SHAPES[case]
    with pytest.raises(LaunchError, match=words) as caught:
        attempt(**changes)
    assert str(caught.value).startswith("fill")


def test_a_cooperative_grid_must_be_resident():
    with pytest.raises(
        LaunchError, match=r"cooperative grid of 1000 blocks; at most 528 .*4 on each of 132"
    ):
        launch(KERNEL, 1000, 128, 0, list(GOOD.values()), cooperative=True, target=get("h100"))


class Box(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float), ("c", ctypes.c_int)]


BYTES = {
    "int": ("scalar", "int", 4, -2, b"\xfe\xff\xff\xff"),
    "bool": ("scalar", "bool", 1, True, b"\x01"),
    "numpy int": ("scalar", "long long", 8, np.int32(3), b"\x03" + bytes(7)),
    "numpy float": ("scalar", "float", 4, np.float64(0.5), struct.pack("<f", 0.5)),
    "int for a float": ("scalar", "double", 8, 3, struct.pack("<d", 3)),
    "infinity": ("scalar", "float", 4, float("inf"), b"\x00\x00\x80\x7f"),
    "half": ("scalar", "half", 2, 1.5, struct.pack("<e", 1.5)),
    "bfloat16": ("scalar", "__nv_bfloat16", 2, 1.0, b"\x80\x3f"),
    "bfloat16 rounds up": ("scalar", "__nv_bfloat16", 2, 1.0 + 2**-8 + 2**-10, b"\x81\x3f"),
    "bfloat16 ties to even": ("scalar", "__nv_bfloat16", 2, 1.0 + 2**-8, b"\x80\x3f"),
    "bfloat16 NaN": ("scalar", "__nv_bfloat16", 2, float("nan"), b"\xc0\x7f"),
    "vector": ("struct", "int2", 8, (1, -1), b"\x01\x00\x00\x00\xff\xff\xff\xff"),
    "ctypes": ("struct", "Box", 12, Box(1, 0.5, 2), struct.pack("<ifi", 1, 0.5, 2)),
    "numpy record": (
        "struct", "Box", 8, np.array([(1, 2.0)], "i4,f4")[0], struct.pack("<if", 1, 2.0)),
    "unknown, signed": ("scalar", "", 4, -1, b"\xff" * 4),
    "unknown, unsigned": ("scalar", "Mode", 4, 2**32 - 1, b"\xff" * 4),
}  # fmt: skip


@pytest.mark.parametrize("case", BYTES)
def test_numbers_become_exact_bytes(case):
    kind, ctype, size, value, expected = BYTES[case]
    assert arguments.pack("f", 0, Parameter(kind, "a", ctype, size), value) == expected


@pytest.mark.parametrize("value", [0.1, 3.14159, -65504.0, 1e-30, 3e38, 2.0**-133])
def test_bfloat16_rounds_as_torch_does(value):
    packed = arguments.scalar("f", 0, Parameter("scalar", "a", "__nv_bfloat16", 2), value)
    expected = torch.tensor(value, dtype=torch.float32).bfloat16().view(torch.int16).item()
    assert int.from_bytes(packed, "little", signed=True) == expected


@pytest.mark.parametrize(
    ("ctype", "dtype"),
    [
        ("unsigned int", torch.int32), ("bool", torch.bool), ("unsigned char", torch.float8_e4m3fn),
        ("float4", torch.float16), ("void", torch.float64), ("float2", torch.complex64),
        ("unsigned short", torch.bfloat16), ("Box", torch.uint8), ("__nv_bfloat162", torch.bfloat16),
        ("char", torch.int8), ("unsigned long", torch.int64),
    ],
)  # fmt: skip
def test_pointers_take_the_dtypes_that_c_means(ctype, dtype):
    tensor = torch.empty(4, dtype=dtype)
    packed = arguments.pack("f", 0, Parameter("pointer", "x", ctype), tensor)
    assert packed.address == tensor.data_ptr()


def test_a_view_is_registered_with_its_whole_storage():
    whole = torch.zeros(10)
    packed = arguments.pack("f", 0, Parameter("pointer", "x", "float"), whole[4:6])
    assert (packed.address - packed.start, packed.nbytes) == (16, 40)
    array = np.zeros((4, 5), np.float32)
    packed = arguments.pack("f", 0, Parameter("pointer", "x", "float"), array[:, 2])
    assert (packed.address - packed.start, packed.nbytes) == (8, 80)


def test_read_only_comes_from_const_and_from_numpy():
    array = np.zeros(4, np.float32)
    assert not arguments.pack("f", 0, Parameter("pointer", "x", "float"), array).readonly
    array.flags.writeable = False
    assert arguments.pack("f", 0, Parameter("pointer", "x", "float"), array).readonly
    assert arguments.pack("f", 0, Parameter("pointer", "x", "float", 8, True), X).readonly


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("_Z4softIfLi4EEvPKT_PS0_iS0_", "soft"), ("_ZN1k5innerEP6float2", "inner"), ("vadd", "vadd"),
        ("_ZL6hiddenPi", "hidden"), ("_ZN12_GLOBAL__N_16nestedEv", "nested"), ("_Z", "_Z"),
    ],
)  # fmt: skip
def test_names_are_readable(entry, name):
    assert arguments.readable(entry) == name


@pytest.mark.parametrize(
    ("arch", "part"), [("sm_90a", "h100"), ("sm_80", "a100"), ("sm_90", "h100"), ("sm_60", "h100")]
)
def test_an_architecture_stands_for_a_part(arch, part):
    assert imitated(plus(arch=arch)).name == part


def test_an_architecture_nobody_has_is_an_error():
    with pytest.raises(LaunchError, match="sm_999a"):
        imitated(plus(arch="sm_999a"))


def test_which_code_runs_where():
    assert limits.runs_on("sm_100f", (10, 3))
    assert not limits.runs_on("sm_100a", (10, 3))
    assert limits.runs_on("compute_90", (12, 0))
