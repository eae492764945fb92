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
    [
        np.arange(6, dtype=np.uint8).reshape(1, 2, 3),
        np.float32(0.1),
        np.array(7),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.array(["ab", "c"]),
        np.asfortranarray(np.ones((2, 3))),
    ],
)
def test_arrays_come_back_as_they_were_packed(value):
    again = unpack(pack({"a": [value], "n": None, b"raw": b"x"}))["a"][0]
    assert again.dtype == value.dtype and again.shape == value.shape and (again == value).all()


def array(**changes: object) -> bytes:
    form = {"__ndarray__": True, "data": b"1234", "dtype": "<f4", "shape": [1]}
    return msgpack.packb({name.encode(): value for name, value in {**form, **changes}.items()})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["msgpack"]),
        (b"\xc1", ["msgpack"]),
        (b"\x81\xa1a", ["msgpack"]),
        (b"\xc0\xc0", ["msgpack"]),
        (b"\xdd\xff\xff\xff\xff", ["msgpack"]),  # a list of 2**32 - 1 entries
        (b"\xdf\xff\xff\xff\xff", ["msgpack"]),  # a map of so many
        (b"\xc6\xff\xff\xff\xff", ["msgpack"]),  # so many bytes
        (b"\x91" * 100 + b"\xc0", ["8 levels"]),
        (b"\x91" * 100_000 + b"\xc0", []),
        (msgpack.packb([[]] * 1024), ["1024 lists"]),
        (msgpack.packb([0] * 1025), []),
        (b"\x81\x90\xc0", ["msgpack"]),  # a list as a key
        (array(shape=[2]), ["[2]", "'<f4'", "4 bytes"]),
        (array(shape=[2**62, 2**62]), ["4 bytes"]),
        (array(shape=[-1]), ["8 sizes"]),
        (array(shape=[1] * 9), ["8 sizes"]),
        (array(shape=[True]), ["8 sizes"]),
        (array(shape=None), ["8 sizes"]),
        (array(data="1234"), ["str"]),
        (array(dtype="|O"), ["objects"]),
        (array(dtype="<c8"), ["objects"]),
        (array(dtype="(4,)u1"), ["numpy"]),
        (array(dtype="<V4"), ["objects"]),
        (array(dtype="<U0", data=b""), ["0 bytes"]),
        (array(dtype="nonsense"), ["numpy"]),
        (array(dtype=4), ["numpy"]),
    ],
)
def test_bytes_that_are_no_message_are_refused(refused, data, words):
    with refused(WireError, *words, text=False) as error:
        unpack(data)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("value", [object(), np.array([None]), np.complex64(1), {1, 2}])
def test_other_objects_are_not_packed(value):
    with pytest.raises(TypeError):
        pack(value)
