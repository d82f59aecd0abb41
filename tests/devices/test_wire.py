"""What goes over the wire comes out equal, and nothing else comes out."""
# SPDX-License-Identifier: Apache-2.0

import gc
import json
import os
import socket

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.devices import wire

pytestmark = pytest.mark.plain

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
@settings(max_examples=50, deadline=None)
def test_plain_data_round_trips(value):
    assert wire.unpack_plain(*wire.pack_plain({"value": value})) == {"value": value}


@given(st.lists(st.lists(st.integers(0, 4), min_size=0, max_size=3), max_size=4))
@settings(max_examples=50, deadline=None)
def test_tensors_round_trip(shapes):
    tensors = [torch.randn(shape) for shape in shapes]
    for pack, unpack in ((wire.pack, wire.unpack), (wire.pack_plain, wire.unpack_plain)):
        back = unpack(*pack(tensors))
        assert all(torch.equal(a, b) for a, b in zip(tensors, back, strict=True))


def test_one_tensor_stays_one():
    x = torch.ones(3)
    a, b = wire.unpack(*wire.pack([x, x]))
    assert a is b


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": 10**9},
        {"offset": -64},
        {"offset": 10**9},
        {"shape": [10**6]},
        {"shape": [-1]},
        {"stride": [10**9]},
        {"dtype": "nn"},
        {"dtype": "float64"},
    ],
)
def test_a_lying_description_is_refused(change):
    body, fds = wire.pack_plain([torch.ones(4)])
    message = json.loads(body)
    message[0][wire._TENSOR] |= change
    with pytest.raises(wire.Hangup):
        wire.unpack_plain(json.dumps(message).encode(), fds)


def test_a_memory_that_is_still_written_is_refused():
    import mmap

    body, fds = wire.pack_plain([torch.ones(4)])
    writable = mmap.mmap(fds[0], 16)
    with pytest.raises(wire.Hangup):
        wire.unpack_plain(body, fds)
    writable.close()


def test_a_closed_connection_is_a_hangup():
    one, two = socket.socketpair()
    one.sendall(b"abc")
    one.close()
    with pytest.raises(wire.Hangup):
        wire.receive(two)
    two.close()


def test_descriptors_are_closed():
    wire.unpack(*wire.pack([torch.ones(4)]))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        wire.unpack(*wire.pack([torch.ones(4)]))
        wire.unpack_plain(*wire.pack_plain([torch.ones(4)]))
    assert len(os.listdir("/proc/self/fd")) <= before
