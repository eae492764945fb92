"""Read small files safely, whatever their path leads to. Light.

A path may name a folder, a pipe or a device, or a file far larger than expected. All readers of
small files that rlcore writes use this module: an unreadable file raises OSError or ValueError at
once. Knows nothing of what the files mean.
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
LARGEST_TEXT = 16 * MIB  # JSON and other texts; the largest that rlcore writes has some hundred KiB
LARGEST_YAML = MIB // 8  # of a configuration, which has some ten KiB; the parser is slow
MOST_NODES = 20_000  # values of a YAML text, with what its aliases repeat
DEEPEST = 100  # brackets in each other; the parser's time grows with their square
LONGEST_LINE = MIB
POINTER = b"version https://git-lfs"
"""How a file begins that Git LFS has not downloaded yet."""
_TOO_DEEP = "its values are nested too deeply"
_BRACKETS = re.compile(r"[\[\]{}]")


class Unreadable(ValueError):
    """A file of another form than required; the message, put behind a colon, says why."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading, if it is one (or a link to one).

    Raises:
        OSError: it is not there, or may not be read.
        Unreadable: it is a folder, a pipe or a device.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise Unreadable(f"it is {kind}, not a file")
    return open(path, "rb")


def read_bytes(path: str | Path, most: int = LARGEST_TEXT) -> bytes:
    """Read the content of a file of at most `most` bytes.

    Raises:
        OSError, Unreadable: see :func:`open_regular`; or it is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size or most  # files of the kernel say 0
        content = file.read(min(size, most) + 1)
    if len(content) > most:
        raise Unreadable(f"it is larger than {_size(most)}")
    if content.startswith(POINTER):
        raise Unreadable("it is a pointer of Git LFS: run git lfs pull in its folder")
    return content


def read_text(path: str | Path, most: int = LARGEST_TEXT) -> str:
    """Read as :func:`read_bytes`, for UTF-8 text with any line ends.

    Raises:
        OSError, Unreadable: likewise; or it is not such a text.
    """
    return decode(read_bytes(path, most))


def decode(content: bytes) -> str:
    """Decode bytes of UTF-8 text, line ends made "\\n". Raises Unreadable for others."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 text: {error.reason}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: str | Path, most: int = LARGEST_TEXT, *, once: bool = False) -> Any:
    """Read the value that a JSON file holds.

    Args:
        once: refuse a mapping that has a key twice; else the last one counts.

    Raises:
        OSError, Unreadable: see :func:`read_text`; or it is not JSON.
    """
    return parse_json(read_text(path, most), once=once)


def parse_json(text: str, *, once: bool = False) -> Any:
    """Parse the value of a JSON text. Raises Unreadable if it is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_once if once else None)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def read_yaml(path: str | Path, *, once: bool = False) -> Any:
    """Read the value of a YAML file; tags that make objects are refused, as are texts that expand.

    Args:
        once: refuse a mapping that has a key twice; else the last one counts.

    Raises:
        OSError, Unreadable: see :func:`read_text`; or it is not YAML.
    """
    text = read_text(path, LARGEST_YAML)
    check_yaml(text)
    with _yaml_errors():
        if once:
            _keys_once(yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)


def check_yaml(text: str) -> None:
    """Refuse a YAML text that is larger than it looks: in which aliases repeat what repeats others.

    Raises:
        Unreadable: it would be more than :data:`MOST_NODES` values, or brackets are nested too
            deeply.
    """
    check_depth(text)
    if "&" in text and "*" in text:  # else there is no alias
        with _yaml_errors():
            root = yaml.compose(text, yaml.SafeLoader)
            count = _count(root, {})
        if count > MOST_NODES:
            raise Unreadable(f"its aliases expand to more than {MOST_NODES} values")


@contextmanager
def _yaml_errors() -> Iterator[None]:
    """Raise Unreadable for YAML that can't be parsed."""
    try:
        yield
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except (ValueError, yaml.YAMLError) as error:  # a wrong date, for one
        raise Unreadable(" ".join(str(error).split())) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    refuse_twice([key for key, _ in pairs])
    return dict(pairs)


def _keys_once(node: yaml.Node | None) -> None:
    if isinstance(node, yaml.MappingNode):
        refuse_twice([key.value for key, _ in node.value if isinstance(key.value, str)])
        for _, value in node.value:
            _keys_once(value)


def refuse_twice(names: Sequence[str]) -> None:
    """Raise Unreadable where a name appears twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise Unreadable(f"{twice[0]!r} appears twice")


def check_depth(text: str) -> None:
    """Raise Unreadable where more than :data:`DEEPEST` brackets lie in each other."""
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > DEEPEST:
            raise Unreadable(_TOO_DEEP)


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the whole lines of UTF-8 text, one at a time, without their ends; a last one that lacks
    its end is left out.

    Raises:
        OSError, Unreadable: see :func:`read_text`; or a line is longer than any that rlcore writes.
    """
    with open_regular(path) as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise Unreadable(f"a line is longer than {_size(LONGEST_LINE)}")
            if line.endswith(b"\n"):
                yield decode(line)[:-1]


def reason_of(error: OSError | ValueError) -> str:
    """Say why something can't be read, for behind a colon: without number and path of an
    OSError."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _count(node: yaml.Node | None, counts: dict[int, float]) -> float:
    """Count values in a node and below it, those of repeated nodes as often as they are repeated.

    Args:
        counts: of the nodes that were counted; infinite while one is, as it may contain itself.
    """
    if id(node) not in counts:
        counts[id(node)] = math.inf
        below: Iterable[yaml.Node] = ()
        if isinstance(node, yaml.SequenceNode):
            below = node.value
        elif isinstance(node, yaml.MappingNode):
            below = chain.from_iterable(node.value)
        counts[id(node)] = 1 + sum(_count(part, counts) for part in below)
    return counts[id(node)]


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"
