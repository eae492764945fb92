"""Encode and decode the bytes on the pipe between a simulator process and its parent.

    message = MAGIC, VERSION, length of the header | header: JSON | arrays, one after another

The header holds the kind of the message, its plain fields (numbers, strings, lists, mappings) and
the dtype and shape of each array. Neither side uses pickle, because the peer may run another Python
with another numpy, and because reading a message must not execute code. This module knows neither
the types of messages (:mod:`.translate` does) nor processes.
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
"""Version of the format; each side supports one."""
LARGEST = 2**33
"""Maximum bytes of a message, enough for hours of video. A larger length means corrupt data."""
DTYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")}
_START = struct.Struct("<4sHQ")


class WireError(WorkerError):
    """A message can't be decoded or encoded."""


@dataclass(frozen=True)
class Message:
    """Content of a message, independent of its meaning.

    Attributes:
        kind: name of the message's type.
        fields: plain values by name: None, bools, numbers, strings, lists, and mappings with string
            keys.
        arrays: arrays by name; each has one of :data:`DTYPES`.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def pack(message: Message) -> bytes:
    """Encode a message.

    Raises:
        WireError: JSON can't represent a field, an array has another dtype than :data:`DTYPES`, or
            the message is longer than :data:`LARGEST` bytes.
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
    """Decode a message. Its arrays are copies, which the caller may modify.

    Raises:
        WireError: the bytes are not a message, have another version, or are too few or too many.
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
    """Wait for the next message on a pipe, and return it.

    Raises:
        WireError: the bytes are not a message of this version, or more than :data:`LARGEST`.
        EOFError, ConnectionError: the peer has closed the pipe or ended.
        BlockingIOError: the pipe's timeout expired.
    """
    try:
        data = pipe.recv_bytes(LARGEST)
    except ConnectionError:
        raise
    except OSError as error:  # multiprocessing raises it without errno: too long, or incomplete
        if error.errno is not None:
            raise
        if "end of file" in str(error):
            raise EOFError("the message broke off") from None
        raise WireError(f"a message is larger than {LARGEST} bytes") from None
    return unpack(data)


def _number(value: Any) -> Any:
    """Convert a numpy scalar to Python's type; json calls this for types that it does not know."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text")


def _header(text: bytes) -> tuple[str, dict[str, Any], list[tuple[str, np.dtype, tuple[int, ...]]]]:
    """Parse a header; return (kind, fields, [(name, dtype, shape) of each array])."""
    try:
        whole = json.loads(text)
    except ValueError as error:  # includes UnicodeDecodeError
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
    """Return the array in little-endian byte order, and check its dtype."""
    plain = np.asarray(array)
    if plain.dtype.kind in "if" and plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    if plain.dtype.str not in DTYPES:
        raise WireError(
            f"array {name!r} is of {plain.dtype}, a message takes "
            f"{', '.join(str(dtype) for dtype in DTYPES.values())}"
        )
    return plain
