"""Messages: the bytes that openpi's clients send, and what is refused of others."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from rlcore_serve.wire import WireError, pack, unpack


def test_an_array_is_a_map_with_bytes_keys():
    array = np.array([[1, 2, 3]], dtype=np.float32)
    plain = msgpack.unpackb(pack({"actions": array}))
    assert plain == {
        "actions": {
            b"__ndarray__": True,
            b"data": b"\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40",  # 1.0, 2.0, 3.0
            b"dtype": "<f4",
            b"shape": [1, 3],
        }
    }
    scalar = msgpack.unpackb(pack(np.int16(258)))
    assert scalar == {b"__npgeneric__": True, b"data": b"\2\1", b"dtype": "<i2"}


@pytest.mark.parametrize(
    "value",
    [np.arange(6, dtype=np.uint8).reshape(1, 2, 3), np.float32(0.1), np.array(7), np.zeros((0, 3)),
     np.array([True, False]), np.array(["ab", "c"]), np.asfortranarray(np.ones((2, 3)))],
)  # fmt: skip
def test_what_is_packed_comes_back(value):
    again = unpack(pack({"a": [value], "n": None, b"raw": b"x"}))["a"][0]
    assert again.dtype == value.dtype and again.shape == value.shape and (again == value).all()


def array(**changes: object) -> bytes:
    form = {"__ndarray__": True, "data": b"1234", "dtype": "<f4", "shape": [1]}
    return msgpack.packb({name.encode(): value for name, value in {**form, **changes}.items()})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not msgpack"),
        (b"\xc1", "not msgpack"),
        (b"\x81\xa1a", "not msgpack"),
        (b"\xc0\xc0", "not msgpack"),
        (b"\xdd\xff\xff\xff\xff", "not msgpack"),  # a list of 2**32 - 1 entries
        (b"\xdf\xff\xff\xff\xff", "not msgpack"),  # a map of so many
        (b"\xc6\xff\xff\xff\xff", "not msgpack"),  # so many bytes
        (b"\x91" * 100 + b"\xc0", "more than 8 levels"),
        (b"\x91" * 100_000 + b"\xc0", "."),
        (msgpack.packb([[]] * 1024), "more than 1024 lists"),
        (msgpack.packb([0] * 1025), "exceeds"),
        (b"\x81\x90\xc0", "not msgpack"),  # a list as a key
        (array(shape=[2]), r"shape \[2\] and dtype '<f4' comes with 4 bytes"),
        (array(shape=[2**62, 2**62]), "comes with 4 bytes"),
        (array(shape=[-1]), "must be at most 8 sizes"),
        (array(shape=[1] * 9), "must be at most 8 sizes"),
        (array(shape=[True]), "must be at most 8 sizes"),
        (array(shape=None), "must be at most 8 sizes"),
        (array(data="1234"), "comes with str"),
        (array(dtype="|O"), "no objects"),
        (array(dtype="<c8"), "no objects"),
        (array(dtype="(4,)u1"), "one of numpy's"),
        (array(dtype="<V4"), "no objects"),
        (array(dtype="<U0", data=b""), "comes with 0 bytes"),
        (array(dtype="nonsense"), "one of numpy's"),
        (array(dtype=4), "one of numpy's"),
    ],
)
def test_what_is_no_message_is_refused_in_a_sentence(data, said):
    with pytest.raises(WireError, match=said) as caught:
        unpack(data)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [object(), np.array([None]), np.complex64(1), {1, 2}])
def test_what_can_not_be_sent(value):
    with pytest.raises(TypeError, match="can't be sent"):
        pack(value)
