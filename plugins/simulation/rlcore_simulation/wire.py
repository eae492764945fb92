"""Encode and decode the bytes on the pipe between a simulator process and its parent.

    message = MAGIC, VERSION, length of the header | header: JSON | arrays, one after another

The header holds the kind of the message, its plain fields (numbers, texts, lists, mappings) and the
dtype and shape of each array. Nothing is pickled, in either direction: the other side may be
another Python with another numpy, and its messages are parsed, never executed. Knows no message
(:mod:`.translate` does) and no process.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rlcore.contracts.errors import WorkerError

MAGIC = b"RLCS"
VERSION = 1
"""Of the format; each side speaks one."""
LARGEST = 2**33
"""Bytes of a message: some hours of film. A length beyond is no length but garbage."""
DTYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")}
_START = struct.Struct("<4sHQ")


class WireError(WorkerError):
    """A message that can't be read, or can't be written."""


@dataclass(frozen=True)
class Message:
    """What is said, whatever it means.

    Attributes:
        kind: one word.
        fields: plain values by name: None, bools, numbers, texts, lists and mappings with texts as
            keys.
        arrays: by name, of one of :data:`DTYPES`.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def pack(message: Message) -> bytes:
    """The bytes of a message.

    Raises:
        WireError: a value that JSON does not have, an array of another dtype, or more bytes than
            :data:`LARGEST`.
    """
    arrays = {name: _plain(name, array) for name, array in message.arrays.items()}
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    whole = {"kind": message.kind, "fields": message.fields, "arrays": layout}
    try:
        header = json.dumps(whole, separators=(",", ":"), default=_number).encode()
    except (TypeError, ValueError) as error:
        raise WireError(f"{message.kind!r} can't be told to another process: {error}") from None
    size = _START.size + len(header) + sum(array.nbytes for array in arrays.values())
    if size > LARGEST:
        raise WireError(f"{message.kind!r} has {size} bytes, a message at most {LARGEST}")
    start = _START.pack(MAGIC, VERSION, len(header))
    return b"".join([start, header, *(array.tobytes() for array in arrays.values())])


def unpack(data: bytes) -> Message:
    """The message of some bytes; its arrays are the caller's own.

    Raises:
        WireError: they are none, or of another version, or cut, or too long.
    """
    if len(data) < _START.size:
        raise WireError(f"a message of {len(data)} bytes is cut: its start has {_START.size}")
    magic, version, length = _START.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"not a message of a simulator: it begins with {magic!r}, not {MAGIC!r}")
    if version != VERSION:
        raise WireError(f"a message has version {version}, this side reads version {VERSION}")
    header = data[_START.size : _START.size + length]
    if len(header) < length:
        raise WireError(f"a message is cut: {len(header)} of the {length} bytes of its header")
    kind, fields, layout = _header(header)
    sizes = [dtype.itemsize * math.prod(shape) for _, dtype, shape in layout]
    place, end = _START.size + length, _START.size + length + sum(sizes)
    if len(data) != end:
        what = "is cut" if len(data) < end else "is too long"
        raise WireError(f"a message {what}: {kind!r} has {end} bytes, {len(data)} came")
    arrays = {}
    for (name, dtype, shape), size in zip(layout, sizes, strict=True):
        flat = np.frombuffer(data, dtype, count=math.prod(shape), offset=place)
        arrays[name] = flat.reshape(shape).copy()
        place += size
    return Message(kind, fields, arrays)


def receive(pipe: Connection) -> Message:
    """The next message.

    Raises:
        WireError: what came is no message of this version, or too large.
        EOFError, ConnectionError: nobody is there any more.
    """
    try:
        data = pipe.recv_bytes(LARGEST)
    except ConnectionError:
        raise
    except OSError as error:  # from the library: longer than it may be, or cut
        if error.errno is not None:
            raise
        if "end of file" in str(error):
            raise EOFError("the message broke off") from None
        raise WireError(f"a message is larger than {LARGEST} bytes") from None
    return unpack(data)


def _number(value: Any) -> Any:
    """Numpy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text")


def _header(text: bytes) -> tuple[str, dict[str, Any], list[tuple[str, np.dtype, tuple[int, ...]]]]:
    """(kind, fields, layout of the arrays)."""
    try:
        whole = json.loads(text)
    except ValueError as error:  # of text that is no UTF-8, too
        raise WireError(f"the header of a message is not JSON: {error}") from None
    try:
        kind, fields, layout = (whole[name] for name in ("kind", "fields", "arrays"))
        read = [(str(name), DTYPES[dtype], _shape(shape)) for name, dtype, shape in layout]
    except (KeyError, TypeError, ValueError):
        read = None
    if read is None or not isinstance(kind, str) or not isinstance(fields, dict):
        raise WireError(
            f"the header of a message lacks its kind, its fields or its arrays: {text[:200]!r}"
        )
    return kind, fields, read


def _shape(sizes: Any) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a size of an array")
    return tuple(sizes)


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """The array in little-endian numbers, whatever this machine's are."""
    plain = np.asarray(array)
    if plain.dtype.kind in "if" and plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    if plain.dtype.str not in DTYPES:
        raise WireError(
            f"array {name!r} is of {plain.dtype}, a message takes "
            f"{', '.join(str(dtype) for dtype in DTYPES.values())}"
        )
    return plain
