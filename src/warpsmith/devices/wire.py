"""Messages between processes: a pickle goes down to a worker, JSON comes back; tensors travel as memfds.

A memfd has no name, so nothing is left in /dev/shm whoever is killed. What comes up from a worker is
never unpickled: candidate code could have written it.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import fcntl
import functools
import io
import json
import math
import mmap
import os
import pickle
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

_HEADER = struct.Struct("<QB")  # bytes of the body, number of file descriptors
_ALIGNMENT = 64
_TENSOR = "__tensor__"
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Hangup(Exception):
    """The other side closed the connection or broke the protocol."""


def send(sock: socket.socket, body: bytes, fds: Sequence[int] = ()) -> None:
    socket.send_fds(sock, [_HEADER.pack(len(body), len(fds))], fds)
    sock.sendall(body)


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """One message. Raises Hangup at the end of the stream."""
    header, fds, _, _ = socket.recv_fds(sock, _HEADER.size, 4)
    if len(header) < _HEADER.size:
        for fd in fds:
            os.close(fd)
        raise Hangup("connection closed")
    size, _ = _HEADER.unpack(header)
    body = bytearray()
    while len(body) < size:
        part = sock.recv(min(size - len(body), 1 << 20))
        if not part:
            raise Hangup("connection closed within a message")
        body += part
    return bytes(body), fds


class _Heap:
    """Tensors one after another in a memfd."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("warpsmith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.size = 0

    def add(self, tensor: Any) -> dict[str, Any]:
        """Where and what: a plain description from which `_tensor_at` rebuilds it."""
        from .memory import flat_bytes

        data = flat_bytes(tensor.detach())
        offset = -(-self.size // _ALIGNMENT) * _ALIGNMENT
        _write(self.fd, memoryview(data.numpy()), offset)
        self.size = offset + data.numel()
        return {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "offset": offset,
            "bytes": data.numel(),
        }


def _write(fd: int, data: memoryview, offset: int) -> None:
    while len(data):
        written = os.pwrite(fd, data[: 1 << 30], offset)
        data, offset = data[written:], offset + written


def _map(fd: int) -> mmap.mmap | None:
    size = os.fstat(fd).st_size
    return mmap.mmap(fd, size, access=mmap.ACCESS_COPY) if size else None


def _tensor_at(place: Mapping[str, Any], heap: mmap.mmap | None) -> Any:
    """Raises Hangup when the description does not fit the bytes."""
    import torch

    dtype = getattr(torch, str(place["dtype"]), None)
    shape, stride = _sizes(place["shape"]), _sizes(place["stride"])
    offset, size = int(place["offset"]), int(place["bytes"])
    if not isinstance(dtype, torch.dtype) or len(shape) != len(stride) or offset < 0:
        raise Hangup(f"no such tensor: {place}")
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    needed = (1 + sum((n - 1) * s for n, s in zip(shape, stride))) * dtype.itemsize
    if heap is None or needed != size or offset + size > len(heap):
        raise Hangup(f"a tensor lies outside its memory: {place}")
    flat = torch.frombuffer(heap, dtype=torch.uint8, count=size, offset=offset)
    return flat.view(dtype).as_strided(shape, stride)


def _sizes(given: Any) -> list[int]:
    sizes = [int(n) for n in given]
    if any(n < 0 for n in sizes):
        raise Hangup(f"negative sizes: {sizes}")
    return sizes


def pack(message: Any) -> tuple[bytes, list[int]]:
    """Anything that cloudpickle takes, with its CPU tensors in a memfd; for trusted senders.

    A tensor that occurs twice stays one tensor.
    """
    buffer, heap = io.BytesIO(), _Heap()
    _pickler()(buffer, heap).dump(message)
    return buffer.getvalue(), [heap.fd]


@functools.cache
def _pickler() -> Any:
    import cloudpickle
    import torch

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, buffer: io.BytesIO, heap: _Heap):
            super().__init__(buffer)
            self._heap = heap
            self._kept: list[Any] = []
            self._known: dict[int, tuple[dict[str, Any], int, bool]] = {}

        def persistent_id(self, value: Any) -> Any:
            plain = type(value) is torch.Tensor and value.device.type == "cpu"
            if not plain or value.layout != torch.strided or not value.is_leaf:
                return None
            if id(value) not in self._known:
                self._kept.append(value)  # an id is good while its object lives
                place = self._heap.add(value)
                self._known[id(value)] = place, len(self._known), value.requires_grad
            return self._known[id(value)]

    return Pickler


class _Unpickler(pickle.Unpickler):
    def __init__(self, body: bytes, heap: mmap.mmap | None):
        super().__init__(io.BytesIO(body))
        self._heap, self._made = heap, {}  # type: ignore[var-annotated]

    def persistent_load(self, key: Any) -> Any:
        place, number, requires_grad = key
        if number not in self._made:
            self._made[number] = _tensor_at(place, self._heap).requires_grad_(requires_grad)
        return self._made[number]


def unpack(body: bytes, fds: Sequence[int]) -> Any:
    """The inverse of `pack`. Closes the descriptors."""
    heap = _map(fds[0])
    os.close(fds[0])
    return _Unpickler(body, heap).load()


def pack_plain(message: Any) -> tuple[bytes, list[int]]:
    """Plain data and CPU tensors as JSON and a memfd."""
    heap = _Heap()
    return json.dumps(_flatten(message, heap)).encode(), [heap.fd]


def unpack_plain(body: bytes, fds: Sequence[int]) -> Any:
    """The inverse of `pack_plain`. Tuples come back as lists. Closes the descriptors.

    Raises Hangup when the sender sent anything else.
    """
    try:
        # sealed first: the sender cannot change or cut what is about to be read
        fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, _SEALS)
        return _restore(json.loads(body), _map(fds[0]))
    except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
        raise Hangup(f"a worker's answer could not be read: {error}") from None
    finally:
        for fd in fds:
            os.close(fd)


def _flatten(value: Any, heap: _Heap) -> Any:
    if hasattr(value, "untyped_storage"):
        return {_TENSOR: heap.add(value)}
    if isinstance(value, Mapping):
        return {str(k): _flatten(v, heap) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_flatten(v, heap) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _restore(value: Any, heap: mmap.mmap | None) -> Any:
    if isinstance(value, dict):
        if _TENSOR in value:
            return _tensor_at(value[_TENSOR], heap)
        return {k: _restore(v, heap) for k, v in value.items()}
    if isinstance(value, list):
        return [_restore(v, heap) for v in value]
    return value
