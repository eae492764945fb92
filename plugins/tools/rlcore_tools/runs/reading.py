"""Read the small files of many runs fast.

The configurations of a folder are nearly the same text, and a YAML parser is slow. A configuration
is therefore split into its keys by indentation, a key with a number or a word is read without the
parser, and the values of equal texts are cached. A file whose layout is not that of a run's
configuration is parsed as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore.files.reading import UnreadableError, read_json, read_text, read_yaml

Values = Mapping[str, Any]
PART = 20_000  # bytes that are read at the beginning and at the end of a log
_SECTION = re.compile(r" *([A-Za-z_]\w*):")
_PLAIN = re.compile(
    r" *([A-Za-z_]\w*): (?:(0|-?[1-9]\d*)|(-?\d+\.\d+)|([A-Za-z][\w./-]*))\n?", re.ASCII
)
"""Line with a key and an integer, a decimal fraction or a word."""
_WORDS = {"true": True, "false": False, "null": None}
_OTHERS = {"yes", "no", "on", "off", *_WORDS}
"""Words that YAML 1.1 reads as bool or null, in any case."""


def read_config(path: Path) -> Values:
    """Read a configuration as nested mappings.

    The result must not be changed, because equal sections are shared between configurations.

    Raises:
        OSError, Unreadable: as :func:`rlcore.files.reading.read_yaml`; Unreadable also if the file
            holds no mapping.
    """
    text = read_text(path)
    try:
        if "&" in text or "*" in text or not text:  # an alias refers to another part of the file
            raise UnreadableError("it may have aliases")
        return _mapping(text)
    except (UnreadableError, ValueError, RecursionError, yaml.YAMLError):
        values = read_yaml(path)
    if not isinstance(values, dict):
        raise UnreadableError("it holds no mapping of names to values")
    return values


def _mapping(text: str) -> dict[str, Any]:
    """Read a block mapping, whose keys all have the indentation of the first line."""
    indent = len(text) - len(text.lstrip(" "))
    keys = re.finditer(rf"^ {{{indent}}}(?=[^ \n-])", text, re.MULTILINE)
    cuts = [*(key.start() for key in keys), len(text)]
    if cuts[0] != 0:
        raise UnreadableError("it does not begin with a key")
    values: dict[str, Any] = {}
    for start, end in pairwise(cuts):
        values |= _entry(text[start:end])
    return values


@lru_cache(maxsize=1 << 14)
def _entry(text: str) -> dict[str, Any]:
    """Read one key with the lines that belong to it."""
    head, _, below = text.partition("\n")
    indent = len(text) - len(text.lstrip(" "))
    section = _SECTION.fullmatch(head)
    if section and below.startswith(" " * (indent + 1)) and not below.lstrip(" ").startswith("-"):
        return {section[1]: _mapping(below)}
    if (plain := _PLAIN.fullmatch(text)) and plain[1].lower() not in _OTHERS:
        name, whole, fraction, word = plain.groups()
        if word is None:
            return {name: float(fraction) if whole is None else int(whole)}
        if word in _WORDS or word.lower() not in _OTHERS:
            return {name: _WORDS.get(word, word)}
    values = yaml.safe_load(text)
    if not isinstance(values, dict):
        raise UnreadableError("it is no mapping")
    return values


def read_mapping(path: str | Path) -> dict[str, Any] | None:
    """Read a mapping from a JSON file; None if the file does not exist.

    Raises:
        OSError: the file can't be read.
        Unreadable: it is damaged or holds no mapping; the message names the file.
    """
    try:
        values = read_json(path)
    except FileNotFoundError:
        return None
    except UnreadableError as error:
        raise UnreadableError(f"{Path(path).name}: {error}") from None
    if not isinstance(values, dict):
        raise UnreadableError(f"{Path(path).name} holds no mapping of names to values")
    return values


def read_ends(metrics: Path) -> tuple[list[Values], list[Values]]:
    """Read the first and the last lines of a log of metrics.

    Only complete lines with an integer step are returned, from `PART` bytes at each end. In a short
    log these overlap or are the same. Both lists are empty if the log can't be read.
    """
    try:
        with metrics.open("rb") as file:
            first = file.read(PART)
            size = file.seek(0, 2)
            file.seek(max(0, size - PART))
            last = file.read(PART)
    except OSError:
        return [], []
    return _lines(first), _lines(last)


def _lines(part: bytes) -> list[Values]:
    found: list[Values] = []
    for line in part.split(b"\n"):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):  # cut off at an end of the part
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            found.append(values)
    return found
