"""The bytes between a simulator process and its parent: what is read back, and what is refused."""

from __future__ import annotations

import math
import os
import pickle
import struct
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest
from rlcore_simulation import wire
from rlcore_simulation.wire import Message, WireError, pack, unpack

FIELDS = {"count": 3, "text": "größer", "none": None, "list": [1, [2.5, True]], "map": {"a": 0.1}}
ARRAYS = {
    "frames": np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    "rewards": np.array([[0.1, -0.0], [np.inf, np.nan]], dtype=np.float32),
    "steps": np.array([2**40], dtype=np.int64),
    "ends": np.array([True, False]),
    "empty": np.zeros((0, 7), dtype=np.float64),
    "number": np.array(5, dtype=np.int32),
}


def with_header(text: bytes, arrays: bytes = b"") -> bytes:
    return struct.pack("<4sHQ", b"RLCS", 1, len(text)) + text + arrays


def test_a_message_comes_back_to_the_bit() -> None:
    message = unpack(pack(Message("Played", FIELDS, ARRAYS)))
    assert (message.kind, message.fields) == ("Played", FIELDS)
    assert list(message.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        found = message.arrays[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert (found.flags.writeable and found.base is None) or found.base.flags.writeable


def test_the_format_is_the_one_that_is_written_down() -> None:
    data = pack(Message("Play", {"final": True}, {"actions": np.array([1.0, 2.0], np.float32)}))
    header = b'{"kind":"Play","fields":{"final":true},"arrays":[["actions","<f4",[2]]]}'
    # magic, version 1 in 2 bytes, the header's length in 8, little end first; 1.0 is 0x3f800000
    start = b"RLCS" + b"\x01\x00" + bytes([len(header)]) + bytes(7)
    assert data == start + header + b"\x00\x00\x80\x3f\x00\x00\x00\x40"


def test_numbers_that_json_does_not_have_survive() -> None:
    fields = {"infos": [math.nan, math.inf, -math.inf, 0.1 + 0.2, 5e-324]}
    found = unpack(pack(Message("x", fields))).fields["infos"]
    assert math.isnan(found[0]) and found[1:] == fields["infos"][1:]


def test_numpys_numbers_are_numbers() -> None:
    fields = {"row": np.int64(3), "gap": np.float32(0.5), "on": np.bool_(True)}
    assert unpack(pack(Message("x", fields))).fields == {"row": 3, "gap": 0.5, "on": True}


def test_arrays_of_the_other_byte_order_and_strided_ones_are_the_same_numbers() -> None:
    array = np.arange(6, dtype=">f4").reshape(2, 3).T
    found = unpack(pack(Message("x", {}, {"a": array}))).arrays["a"]
    assert found.dtype == np.dtype("<f4") and found.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("message", "dtype"),
    [
        (Message("x", {"a": {1, 2}}), ""),
        (Message("x", {}, {"a": np.array(["text"])}), "<U4"),
        (Message("x", {}, {"a": np.array([None])}), "object"),
        (Message("x", {}, {"a": np.zeros(1, np.float16)}), "float16"),
    ],
)
def test_a_value_that_the_format_lacks_is_refused(refused, message: Message, dtype: str) -> None:
    with refused(WireError, dtype):
        pack(message)


WHOLE = pack(Message("Played", FIELDS, ARRAYS))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WHOLE[:13],
        WHOLE[:40],
        WHOLE[:-1],
        WHOLE + b"!",
        b"RLCS" + b"\x02\x00" + WHOLE[6:],
        pickle.dumps(FIELDS).ljust(20),
        with_header(b"{"),
        with_header(b"\xff"),
        with_header(b"[]"),
        with_header(b'{"kind":1,"fields":{},"arrays":[]}'),
        with_header(b'{"kind":"x","fields":[],"arrays":[]}'),
        with_header(b'{"kind":"x","fields":{},"arrays":[["a","|O",[1]]]}', bytes(8)),
        with_header(b'{"kind":"x","fields":{},"arrays":[["a","<f4",[-1]]]}'),
        with_header(b'{"kind":"x","fields":{},"arrays":[["a","<f4",[1.5]]]}', bytes(6)),
        with_header(b'{"kind":"x","fields":{},"arrays":[["a","<f4",[99999999]]]}'),
        with_header(b'{"kind":"x","fields":{},"arrays":[["a","<f4",[99999999999999999999]]]}'),
    ],
)
def test_bytes_that_are_no_message_are_refused(refused, data: bytes) -> None:
    with refused(WireError, "not a message", text=False):  # Python and numpy word the causes
        unpack(data)


def test_a_message_that_is_too_large_is_refused(refused, monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message("frames", {}, {"0": np.zeros(1000, np.uint8)})
    size = len(pack(message))
    monkeypatch.setattr(wire, "LARGEST", size - 1)
    with refused(WireError, "frames", size, size - 1):
        pack(message)


def test_a_message_with_too_large_a_length_is_refused_unread(refused) -> None:
    ours, theirs = Pipe()
    # the length of a message as the library writes it, -1 and then 8 bytes: an exbibyte
    os.write(theirs.fileno(), struct.pack("!iQ", -1, 2**60))
    with refused(WireError):
        wire.receive(ours)


def test_a_message_that_breaks_off_is_the_end_of_the_other_side() -> None:
    ours, theirs = Pipe()
    os.write(theirs.fileno(), struct.pack("!i", 100) + b"RLCS")
    theirs.close()
    with pytest.raises(EOFError):
        wire.receive(ours)


class Bomb:
    """What does harm where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = str(mark)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._mark,)


def test_nothing_is_run_that_comes_over_the_pipe(refused, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "first"))
    pickle.loads(bomb)
    assert (tmp_path / "first").is_dir()  # it would go off
    ours, theirs = Pipe()
    theirs.send(Bomb(tmp_path / "second"))
    with refused(WireError, "not a message", text=False):
        wire.receive(ours)
    assert not (tmp_path / "second").exists()
