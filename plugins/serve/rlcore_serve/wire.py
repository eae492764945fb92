"""Pack and unpack messages of openpi's policy servers: msgpack, arrays as maps with bytes keys.

    array   {b"__ndarray__": true, b"data": bytes in C order, b"dtype": "<f4", b"shape": [2, 3]}
    scalar  {b"__npgeneric__": true, b"data": bytes, b"dtype": "<f4"}

Sizes in a received message are checked before memory is allocated for them. Knows no policy and no
network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np

MAX_ENTRIES = 1024
"""Most entries of a list or map, and most lists and maps in a message."""
MAX_DEPTH = 8
"""Most levels of nested lists and maps."""
MAX_DIMENSIONS = 8
REFUSED_KINDS = "VOc"
"""numpy's kinds of dtypes that openpi refuses: structured, object, complex."""
_DTYPE = re.compile(r"[<>|=]?[?a-zA-Z]\d{0,4}")


class WireError(ValueError):
    """A message can't be read; the text is one sentence."""


def pack(message: Any) -> bytes:
    """Return the message as bytes.

    Raises:
        TypeError: a value is neither one of msgpack's types nor a numpy array or scalar, or its
            dtype is structured, object or complex.
    """
    packed: bytes = msgpack.packb(message, default=_encode_array)
    return packed


def unpack(data: bytes) -> Any:
    """Return the message that :func:`pack` packed, with read-only arrays.

    Raises:
        WireError: `data` is not such a message, or exceeds the limits on entries, lists and maps,
            or levels.
    """
    count = 0

    def counted(value: Any) -> Any:
        nonlocal count
        count += 1
        if count > MAX_ENTRIES:
            raise WireError(f"the message has more than {MAX_ENTRIES} lists and maps")
        return value

    try:
        message = msgpack.unpackb(
            data,
            object_hook=lambda value: _decode_map(counted(value)),
            list_hook=counted,
            max_array_len=MAX_ENTRIES,
            max_map_len=MAX_ENTRIES,
        )
    except WireError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WireError(
            f"the message is not msgpack as openpi's clients send it: {reason}"
        ) from None
    _check_depth(message)
    return message


def _encode_array(value: Any) -> Any:
    """Convert a numpy array or scalar to a map that msgpack can pack."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind in REFUSED_KINDS:
            raise TypeError(f"an array of dtype {value.dtype} can't be sent")
        fields = {b"data": value.tobytes(), b"dtype": value.dtype.str}
        if isinstance(value, np.generic):
            return {b"__npgeneric__": True, **fields}
        return {b"__ndarray__": True, **fields, b"shape": value.shape}
    raise TypeError(f"a {type(value).__name__} can't be sent")


def _decode_map(value: dict[Any, Any]) -> Any:
    """Return the array or scalar that a map encodes; return any other map unchanged."""
    if b"__ndarray__" in value:
        return _decode_array(value, value.get(b"shape"))
    if b"__npgeneric__" in value:
        return _decode_array(value, [])[()]
    return value


def _decode_array(value: Mapping[Any, Any], shape: Any) -> np.ndarray:
    data, dtype_name = value.get(b"data"), value.get(b"dtype")
    if not isinstance(dtype_name, str) or not _DTYPE.fullmatch(dtype_name):
        raise WireError(
            f"an array's dtype must be one of numpy's, such as '<f4', got {dtype_name!r:.80}"
        )
    try:
        dtype = np.dtype(dtype_name)
    except (TypeError, ValueError):
        raise WireError(f"an array's dtype must be one of numpy's, got {dtype_name!r}") from None
    if dtype.kind in REFUSED_KINDS:
        raise WireError(
            f"an array of dtype {dtype_name!r} is not taken: no objects, no complex numbers"
        )
    sizes = shape if isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS else None
    if sizes is None or any(type(size) is not int or size < 0 for size in sizes):
        raise WireError(
            f"an array's shape must be at most {MAX_DIMENSIONS} sizes, got {shape!r:.80}"
        )
    expected = math.prod(sizes) * dtype.itemsize
    if not isinstance(data, bytes) or len(data) != expected or not dtype.itemsize:
        received = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise WireError(f"an array of shape {sizes} and dtype {dtype_name!r} comes with {received}")
    return np.frombuffer(data, dtype).reshape(sizes)


def _check_depth(message: Any) -> None:
    level = [message]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for value in level
            if isinstance(value, (dict, list))
            for part in (value.values() if isinstance(value, dict) else value)
        ]
    if any(isinstance(value, (dict, list)) for value in level):
        raise WireError(f"the message has lists or maps in more than {MAX_DEPTH} levels")
