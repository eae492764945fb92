"""Convert values of settings to JSON and back without loss.

JSON has numbers, texts, lists and mappings of texts. Any other value of a key (tuples, paths,
members of an Enum, mappings of numbers) is sent as a mapping of one entry, whose name is its type.
Knows no settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from rlcore.contracts.errors import ConfigError
from rlcore.plugins.import_target import load_target

MARK = "!"
"""The beginning of the names that say what a value is."""


def plain(value: Any, where: str) -> Any:
    """A value that JSON has.

    Args:
        where: its key, for errors.

    Raises:
        ConfigError: it is of no kind that is known here.
    """
    if isinstance(value, Enum) and value.name in type(value).__members__:
        return {f"{MARK}enum": [address_of(type(value), where), value.name]}
    if value is None or (
        isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)
    ):
        return value
    if isinstance(value, np.generic):
        return plain(value.item(), where)
    if isinstance(value, PurePath):
        return {f"{MARK}path": str(value)}
    if isinstance(value, (list, tuple)):
        entries = [plain(each, f"{where}[{place}]") for place, each in enumerate(value)]
        return entries if isinstance(value, list) else {f"{MARK}tuple": entries}
    if isinstance(value, Mapping):
        if all(type(name) is str and not name.startswith(MARK) for name in value):
            return {name: plain(each, f"{where}.{name}") for name, each in value.items()}
        pairs = [[plain(n, where), plain(each, f"{where}[{n!r}]")] for n, each in value.items()]
        return {f"{MARK}mapping": pairs}
    kind = type(value)
    raise ConfigError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which a simulator process can't be "
        f"told: {value!r:.200}",
        hint="numbers, texts, paths, members of an Enum, and lists, tuples and mappings of them "
        "can; declare the key as a text, and convert it where the simulator is made",
    )


def restored(value: Any) -> Any:
    """What :func:`plain` was given.

    Raises:
        KeyError, TypeError, ValueError: it comes from elsewhere.
    """
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    inside: Any
    name, inside = next(iter(value.items()), ("", None))
    if not name.startswith(MARK):  # in a mapping none does, or it stands alone
        return {name: restored(each) for name, each in value.items()}
    match name.removeprefix(MARK):
        case "enum":
            return load_target(inside[0])[inside[1]]
        case "path":
            return Path(inside)
        case "tuple":
            return tuple(map(restored, inside))
        case "mapping":
            return {restored(name): restored(each) for name, each in inside}
    raise ValueError(f"a value is a {name!r}")


def address_of(kind: type, where: str) -> str:
    """The name of a class by which another process finds it.

    Raises:
        ConfigError: it has none.
    """
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise ConfigError(
            f"{where} is of the class {kind.__qualname__} of {kind.__module__}, which a simulator "
            "process can't import",
            hint="put the class into a module of its own package, not inside a function or script",
        )
    return f"{kind.__module__}:{kind.__qualname__}"
