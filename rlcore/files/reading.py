"""Read small files safely, whatever their path refers to. Light.

A path may refer to a folder, a pipe or a device, or to a file far larger than expected. Reading it
must neither block nor exhaust the memory, but raise OSError or ValueError at once. Use this module
for all small files that rlcore writes.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import yaml  # type: ignore[import-untyped]

MIB = 1 << 20
MAX_TEXT_BYTES = 16 * MIB  # limit for JSON and other texts; rlcore writes some hundred KiB at most
MAX_YAML_BYTES = MIB // 8  # limit for configurations, which have some ten KiB; the parser is slow
MAX_NODES = 20_000  # limit for the values of a YAML text after expanding its aliases
MAX_DEPTH = 100  # limit for nested brackets; the parser's time is quadratic in the depth
MAX_LINE_BYTES = MIB
LFS_POINTER = b"version https://git-lfs"
"""First bytes of a Git LFS pointer: a placeholder for a file that is not downloaded yet."""
_TOO_DEEP = "its values are nested too deeply"
_BRACKETS = re.compile(r"[\[\]{}]")


class UnreadableError(ValueError):
    """Error for a file or text in the wrong format. The message is a clause to follow a colon."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading bytes.

    Raises:
        OSError: the file is missing or its permissions forbid reading.
        UnreadableError: the path refers to a folder, a pipe or a device.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UnreadableError(f"it is {kind}, not a file")
    return open(path, "rb")


def read_bytes(path: str | Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Read the content of a file of at most `most` bytes.

    Raises:
        OSError, UnreadableError: see :func:`open_regular`; or the file is larger, or a Git LFS
            pointer.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size or most  # the kernel's files report size 0
        content = file.read(min(size, most) + 1)
    if len(content) > most:
        raise UnreadableError(f"it is larger than {_size(most)}")
    if content.startswith(LFS_POINTER):
        raise UnreadableError("it is a pointer of Git LFS: run git lfs pull in its folder")
    return content


def read_text(path: str | Path, most: int = MAX_TEXT_BYTES) -> str:
    """Read a UTF-8 text of at most `most` bytes, and convert its line ends to "\\n".

    Raises:
        OSError, UnreadableError: see :func:`read_bytes`; or the file is not UTF-8 text.
    """
    return decode_text(read_bytes(path, most))


def decode_text(content: bytes) -> str:
    """Decode UTF-8 text and convert its line ends to "\\n"; UnreadableError for other bytes."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not UTF-8 text: {error.reason}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: str | Path, most: int = MAX_TEXT_BYTES, *, once: bool = False) -> Any:
    """Read the value of a JSON file.

    Args:
        most: largest size in bytes.
        once: raise an error for a duplicate key of a mapping; by default its last value is used.

    Raises:
        OSError, UnreadableError: see :func:`read_text`; or the file is not JSON.
    """
    return parse_json(read_text(path, most), once=once)


def parse_json(text: str, *, once: bool = False) -> Any:
    """Parse a JSON text; UnreadableError if it is not JSON. For `once` see :func:`read_json`."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys if once else None)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from None


def read_yaml(path: str | Path, *, once: bool = False) -> Any:
    """Read the value of a YAML file.

    Args:
        once: raise an error for a duplicate key of a mapping; by default its last value is used.

    Raises:
        OSError, UnreadableError: see :func:`read_text` and :func:`check_yaml`; or the file is not
            YAML, or has tags that create Python objects.
    """
    text = read_text(path, MAX_YAML_BYTES)
    check_yaml(text)
    with _yaml_errors():
        if once:
            _require_unique_keys(yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)


def check_yaml(text: str) -> None:
    """Check that a YAML text is not too large after expanding its aliases.

    The size of the expanded value can be exponential in the size of the text, where aliases refer
    to values with further aliases.

    Raises:
        UnreadableError: the value has more than :data:`MAX_NODES` nodes, or brackets are nested too
            deeply.
    """
    check_depth(text)
    if "&" in text and "*" in text:  # the syntax of anchors and aliases
        with _yaml_errors():
            root = yaml.compose(text, yaml.SafeLoader)
            count = _count(root, {})
        if count > MAX_NODES:
            raise UnreadableError(f"its aliases expand to more than {MAX_NODES} values")


@contextmanager
def _yaml_errors() -> Iterator[None]:
    """Convert errors of the YAML parser into UnreadableError."""
    try:
        yield
    except RecursionError:
        raise UnreadableError(_TOO_DEEP) from None
    except (ValueError, yaml.YAMLError) as error:  # ValueError for an invalid date, for example
        raise UnreadableError(" ".join(str(error).split())) from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's pairs as a dict. Raise UnreadableError for a duplicate key."""
    refuse_twice([key for key, _ in pairs])
    return dict(pairs)


def _require_unique_keys(node: yaml.Node | None) -> None:
    """Raise UnreadableError for a duplicate key of a mapping, or of a mapping that is its value."""
    if isinstance(node, yaml.MappingNode):
        refuse_twice([key.value for key, _ in node.value if isinstance(key.value, str)])
        for _, value in node.value:
            _require_unique_keys(value)


def refuse_twice(names: Sequence[str]) -> None:
    """Raise UnreadableError if a name appears more than once."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise UnreadableError(f"{duplicates[0]!r} appears twice")


def check_depth(text: str) -> None:
    """Raise UnreadableError if brackets are nested more than :data:`MAX_DEPTH` deep."""
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > MAX_DEPTH:
            raise UnreadableError(_TOO_DEEP)


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their line ends.

    A last line without a line end is skipped, because its writer may have been killed.

    Raises:
        OSError, UnreadableError: see :func:`read_text`; or a line has more than
            :data:`MAX_LINE_BYTES` bytes.
    """
    with open_regular(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise UnreadableError(f"a line is longer than {_size(MAX_LINE_BYTES)}")
            if line.endswith(b"\n"):
                yield decode_text(line)[:-1]


def error_reason(error: OSError | ValueError) -> str:
    """Return why reading failed, as a clause to follow a colon.

    The number and path of an OSError are omitted.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _count(node: yaml.Node | None, counts: dict[int, float]) -> float:
    """Return the number of values in a node after expanding aliases.

    Args:
        counts: result for each visited node, by id. It is infinite until the node is counted, so
            that a node which contains itself has an infinite count.
    """
    if id(node) not in counts:
        counts[id(node)] = math.inf
        children: Iterable[yaml.Node] = ()
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = chain.from_iterable(node.value)
        counts[id(node)] = 1 + sum(_count(child, counts) for child in children)
    return counts[id(node)]


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"
