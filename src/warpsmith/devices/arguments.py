"""Turn what a launch was given into what the kernel's parameters hold, or say what does not fit."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DtypeError, LaunchError
from ..spec import Artifact, Parameter
from .tensormap import TensorMapArgument
from .textures import TextureArgument


@dataclass(frozen=True, slots=True)
class Mapped:
    """A tensor map among the arguments, and the memory of its tensor."""

    argument: TensorMapArgument
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Buffer:
    """The memory behind a tensor argument: its own address, and the span of its whole storage."""

    address: int
    start: int
    nbytes: int  # of the storage, from start
    readonly: bool  # the array refuses writes, or the kernel promises none
    element_bytes: int
    owner: Any  # keeps the memory alive


# element type of a pointer: dtypes that it may point into. What is not here takes every dtype.
_ELEMENTS = {
    "float": {"float32"}, "double": {"float64"}, "half": {"float16"},
    "__nv_bfloat16": {"bfloat16"}, "half2": {"float16"}, "__nv_bfloat162": {"bfloat16"},
    "float2": {"float32", "complex64"}, "float3": {"float32"},
    "double2": {"float64", "complex128"}, "double3": {"float64"},
    "int": {"int32", "uint32"}, "unsigned int": {"int32", "uint32"},
    "long": {"int64", "uint64"}, "long long": {"int64", "uint64"},
    "unsigned long": {"int64", "uint64"}, "unsigned long long": {"int64", "uint64"},
    "short": {"int16", "uint16"},
    "unsigned short": {"int16", "uint16", "float16", "bfloat16"},  # raw bits
    "signed char": {"int8", "uint8", "bool"}, "bool": {"bool", "uint8", "int8"},
    "__nv_fp8_e4m3": {"float8_e4m3fn", "uint8"}, "__nv_fp8_e5m2": {"float8_e5m2", "uint8"},
}  # fmt: skip

_INTEGERS = {
    "bool": (0, 1), "char": (-128, 127), "signed char": (-128, 127), "unsigned char": (0, 255),
    "short": (-(1 << 15), (1 << 15) - 1), "unsigned short": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1), "unsigned int": (0, (1 << 32) - 1),
    "long": (-(1 << 63), (1 << 63) - 1), "unsigned long": (0, (1 << 64) - 1),
    "long long": (-(1 << 63), (1 << 63) - 1), "unsigned long long": (0, (1 << 64) - 1),
}  # fmt: skip

_NUMBERS = frozenset({int, float, bool, str})

_FLOATS = {"float": "<f", "double": "<d", "half": "<e"}

_VECTORS = {
    f"{base}{n}": (base, n)
    for base in ("float", "double", "int", "half")
    for n in (2, 3, 4)
    if (base, n) not in (("half", 3), ("half", 4))
} | {f"u{base}{n}": (f"unsigned {base}", n) for base in ("int",) for n in (2, 3, 4)}


def place_of(kernel: str, args: Sequence[Any]) -> tuple[str, int | None]:
    """Where the tensors among the arguments are: ("cpu", None), ("cuda", 1), or ("", None) without.

    Raises LaunchError where they are in more than one place, or on a device that runs no kernels.
    """
    places: dict[tuple[str, int | None], list[int]] = {}
    for i, value in enumerate(args):
        place = _place(value)
        if place is not None:
            places.setdefault(place, []).append(i)
    if len(places) > 1:
        where = "; ".join(
            f"{_device_name(p)}: argument {', '.join(map(str, at))}" for p, at in places.items()
        )
        raise LaunchError(
            f"{kernel}: the tensors are on different devices ({where}). Move them to one, "
            "for example with .to(x.device)"
        )
    place = next(iter(places), ("", None))
    if place[0] not in ("cpu", "cuda", ""):
        raise LaunchError(
            f"{kernel}: tensors are on {_device_name(place)!r}; kernels run on 'cuda' tensors, or on "
            "'cpu' tensors in the virtual GPU"
        )
    return place


def cuda_index(args: Sequence[Any]) -> int | None:
    """The CUDA device of the first tensor that is on one; None without."""
    for value in args:
        if getattr(value, "is_cuda", False):
            return int(value.get_device())
    return None


def all_on(index: int, args: Sequence[Any]) -> bool:
    """Whether every tensor is surely on one CUDA device; what is neither tensor nor number is not
    sure.
    """
    for value in args:
        if getattr(value, "is_cuda", False):
            if value.get_device() != index:
                return False
        elif value is not None and type(value) not in _NUMBERS:
            return False
    return True


def check_count(kernel: str, artifact: Artifact, args: Sequence[Any]) -> None:
    """Raises LaunchError, showing the signature, where the number of arguments is wrong."""
    wanted = artifact.parameters
    if len(args) != len(wanted):
        given = ", ".join(_short(a) for a in args)
        raise LaunchError(
            f"{kernel} takes {len(wanted)} arguments, got {len(args)}. It is declared as "
            f"{kernel}({', '.join(map(declared, wanted))}); given: ({given})"
        )


def pack(
    kernel: str, index: int, parameter: Parameter, value: Any
) -> bytes | Buffer | Mapped | None:
    """The bytes of a scalar or struct, the buffer of a tensor or of a tensor map's tensor, or None for
    a null pointer.

    Raises DtypeError or LaunchError that names the parameter, what came, and what to type.
    """
    if value is None:
        _check_null(kernel, index, parameter)
        return None
    if isinstance(value, TensorMapArgument):
        return _mapped(kernel, index, parameter, value)
    if isinstance(value, TextureArgument):
        return _handle(kernel, index, parameter, value)
    if _is_array(value):
        return _buffer(kernel, index, parameter, value)
    if parameter.kind == "pointer":
        raise DtypeError(
            f"{_who(kernel, index, parameter)} takes a tensor, got {_short(value)}. "
            "Pass the tensor itself (not its data_ptr()), or None for a null pointer"
        )
    return scalar(kernel, index, parameter, value)


def scalar(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    """The exact bytes of a number or struct as the parameter holds them."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 and value.dtype.kind in "biuf":
        value = value.item()  # a NumPy scalar
    raw = _raw_bytes(value)
    if raw is not None:
        return _exact(kernel, index, parameter, raw)
    for table, pack_one in ((_INTEGERS, _integer), (_FLOATS, _float), (_VECTORS, _vector)):
        if parameter.ctype in table:
            return pack_one(kernel, index, parameter, value)
    if parameter.ctype == "__nv_bfloat16":
        return _bfloat16(kernel, index, parameter, value)
    if parameter.ctype.startswith("__nv_fp8") or parameter.kind == "struct":
        raise DtypeError(
            f"{_who(kernel, index, parameter)} takes {parameter.size} bytes, got {_short(value)}. "
            "Pass bytes, a ctypes.Structure or a NumPy record of that size"
        )
    return _untyped(kernel, index, parameter, value)


def declared(parameter: Parameter) -> str:
    """A parameter as C writes it: 'const float* x'."""
    kind = parameter.ctype or f"{parameter.size}-byte value"
    if parameter.kind == "pointer":
        kind = f"{'const ' if parameter.const else ''}{parameter.ctype or 'void'}*"
    return f"{kind} {parameter.name}".strip()


@functools.cache
def readable(entry: str) -> str:
    """The name of a PTX entry without its C++ mangling: the last name in it.

    >>> readable("_Z4softIfLi4EEvPKT_PS0_iS0_"), readable("_ZN1k5innerEP6float2"), readable("vadd")
    ('soft', 'inner', 'vadd')
    """
    rest = re.match(r"_ZN?(?:L)?(.*)", entry)
    if not rest:
        return entry
    text, name = rest[1], ""
    while match := re.match(r"L?(\d+)", text):
        length = int(match[1])
        name = text[match.end() : match.end() + length]
        text = text[match.end() + length :]
        if not entry.startswith("_ZN"):
            break
    return name or entry


# ------------------------------------------------------------------------------------ tensors


def _place(value: Any) -> tuple[str, int | None] | None:
    if isinstance(value, TensorMapArgument):
        value = value.tensor
    if isinstance(value, TextureArgument):
        value = value.tensors[0]
    device = getattr(value, "device", None)
    if device is not None and hasattr(device, "type"):  # torch
        return device.type, device.index if device.type != "cpu" else None
    return ("cpu", None) if _is_array(value) and not hasattr(value, "data_ptr") else None


def _is_array(value: Any) -> bool:
    """A tensor or array; NumPy scalars have no `strides` that matter and are none."""
    if hasattr(value, "data_ptr"):
        return True
    return type(value).__name__ == "ndarray" and hasattr(value, "__array_interface__")


def _buffer(kernel: str, index: int, parameter: Parameter, value: Any) -> Buffer:
    who = _who(kernel, index, parameter)
    dtype = str(value.dtype).removeprefix("torch.")
    if parameter.kind != "pointer" and not (parameter.size == 8 and not parameter.ctype):
        raise DtypeError(
            f"{who} takes {declared(parameter)}, a number; got a tensor of {dtype} with shape "
            f"{tuple(value.shape)}. Pass a Python number, for example x.item()"
        )
    accepted = _ELEMENTS.get(parameter.ctype)
    if accepted is not None and dtype not in accepted:
        want = sorted(accepted)[0]
        raise DtypeError(
            f"{who} is declared {declared(parameter)}; got a {dtype} tensor of shape "
            f"{tuple(value.shape)}. Pass .to(torch.{want}), or change the kernel's parameter"
        )
    if hasattr(value, "data_ptr"):
        return _torch_buffer(who, parameter, value)
    return _numpy_buffer(parameter, value)


def _handle(kernel: str, index: int, parameter: Parameter, value: TextureArgument) -> bytes:
    if parameter.kind == "pointer" or parameter.size != 8 or parameter.ctype in _FLOATS:
        raise DtypeError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)}, got a {value!r}. Declare it "
            "cudaTextureObject_t or cudaSurfaceObject_t, or pass the tensor itself"
        )
    return value.texture_handle.to_bytes(8, "little")


def _mapped(kernel: str, index: int, parameter: Parameter, value: TensorMapArgument) -> Mapped:
    who = _who(kernel, index, parameter)
    if parameter.kind == "pointer" or parameter.size != 128:
        raise DtypeError(
            f"{who} takes {declared(parameter)}, got a tensor map. Declare it "
            "'const __grid_constant__ CUtensorMap', or pass the tensor itself"
        )
    any_pointer = Parameter("pointer", parameter.name, "void")
    if hasattr(value.tensor, "data_ptr"):
        return Mapped(value, _torch_buffer(who, any_pointer, value.tensor))
    return Mapped(value, _numpy_buffer(any_pointer, value.tensor))


def _torch_buffer(who: str, parameter: Parameter, value: Any) -> Buffer:
    if str(value.layout) != "torch.strided":
        raise DtypeError(
            f"{who} got a tensor of layout {value.layout}: pass .to_dense() or its parts"
        )
    if value.is_conj() or value.is_neg():
        raise DtypeError(
            f"{who} got a lazily conjugated or negated view: pass .resolve_conj().resolve_neg()"
        )
    storage = value.untyped_storage()
    return Buffer(
        value.data_ptr(), storage.data_ptr(), storage.nbytes(), parameter.const,
        value.element_size(), value,
    )  # fmt: skip


def _numpy_buffer(parameter: Parameter, value: Any) -> Buffer:
    import numpy as np

    address = value.__array_interface__["data"][0]
    bounds = getattr(np, "byte_bounds", None) or np.lib.array_utils.byte_bounds  # moved in NumPy 2
    low, high = bounds(value)  # of a view: all that its strides reach
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.flags.c_contiguous or owner.flags.f_contiguous:
        low, high = owner.__array_interface__["data"][0], 0
        high = low + owner.nbytes
    readonly = parameter.const or not value.flags.writeable
    return Buffer(address, low, high - low, readonly, value.itemsize, value)


def contiguous(value: Any) -> bool:
    """Whether a tensor's elements lie one behind the other, in C order."""
    if hasattr(value, "is_contiguous"):
        return bool(value.is_contiguous())
    return bool(value.flags.c_contiguous)


# ------------------------------------------------------------------------------------ numbers


def _check_null(kernel: str, index: int, parameter: Parameter) -> None:
    if parameter.kind == "pointer" or (parameter.size == 8 and not parameter.ctype):
        return
    raise DtypeError(
        f"{_who(kernel, index, parameter)} takes {declared(parameter)}, got None. "
        "None is a null pointer; pass a number"
    )


def _integer(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    low, high = _INTEGERS[parameter.ctype]
    if not isinstance(value, int):
        fix = f"int({value!r})" if isinstance(value, float) else "a Python int"
        raise DtypeError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)}, got {_short(value)}. "
            f"Pass {fix}"
        )
    if not low <= value <= high:
        wider = "long long" if low < 0 else "unsigned long long"
        raise LaunchError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)}, {low} … {high}; "
            f"{int(value)} does not fit. Declare it {wider}, or pass a smaller number"
        )
    return int(value).to_bytes(parameter.size, "little", signed=low < 0)


def _float(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    number = _number(kernel, index, parameter, value)
    try:
        return struct.pack(_FLOATS[parameter.ctype], number)
    except (OverflowError, struct.error):
        raise LaunchError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)}; {value!r} is too large "
            "for it. Pass float('inf') if that is meant"
        ) from None


def _bfloat16(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    number = _number(kernel, index, parameter, value)
    try:
        bits = int.from_bytes(struct.pack("<f", number), "little")
    except OverflowError:
        raise LaunchError(
            f"{_who(kernel, index, parameter)}: {value!r} is too large for bfloat16"
        ) from None
    if number != number:
        return b"\xc0\x7f"
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).to_bytes(
        2, "little"
    )  # to nearest, ties to even


def _number(kernel: str, index: int, parameter: Parameter, value: Any) -> float:
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            pass
    raise DtypeError(
        f"{_who(kernel, index, parameter)} takes {declared(parameter)}, got {_short(value)}. "
        "Pass a Python float"
    )


def _vector(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    base, count = _VECTORS[parameter.ctype]
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise DtypeError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)}, got {_short(value)}. "
            f"Pass a tuple of {count} numbers"
        )
    one = Parameter("scalar", parameter.name, base, parameter.size // count)
    return b"".join(scalar(kernel, index, one, v) for v in value)


def _untyped(kernel: str, index: int, parameter: Parameter, value: Any) -> bytes:
    """A parameter whose C type is not known: integers by size, nothing else by guess."""
    bits = 8 * parameter.size
    if isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits:
        return (value % (1 << bits)).to_bytes(parameter.size, "little")
    raise DtypeError(
        f"{_who(kernel, index, parameter)} holds {parameter.size} bytes of type "
        f"{parameter.ctype or 'unknown'}; {_short(value)} does not say how. Pass an int that fits, "
        f"or bytes of that length: struct.pack(...)"
    )


def _raw_bytes(value: Any) -> bytes | None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (ctypes.Structure, ctypes.Array, ctypes._SimpleCData)):
        return bytes(value)
    if type(value).__module__ == "numpy" and type(value).__name__ == "void":
        return bytes(value.tobytes())
    return None


def _exact(kernel: str, index: int, parameter: Parameter, raw: bytes) -> bytes:
    if len(raw) != parameter.size:
        raise LaunchError(
            f"{_who(kernel, index, parameter)} takes {declared(parameter)} of {parameter.size} bytes, "
            f"got {len(raw)} bytes"
        )
    return raw


# ------------------------------------------------------------------------------------ words


def _who(kernel: str, index: int, parameter: Parameter) -> str:
    name = (
        f" ({parameter.name})" if parameter.name and parameter.name != f"argument {index}" else ""
    )
    return f"{kernel}: argument {index}{name}"


def _short(value: Any) -> str:
    if isinstance(value, TensorMapArgument | TextureArgument):
        return repr(value)
    if _is_array(value):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '…'}"


def _device_name(place: tuple[str, int | None]) -> str:
    return place[0] if place[1] is None else f"{place[0]}:{place[1]}"
