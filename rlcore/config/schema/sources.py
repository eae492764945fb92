"""Store the values that a configuration is composed from, and the file of each. Light."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MISSING = "???"
"""Value of a key that must be set, in files and in the schema."""


@dataclass(frozen=True)
class Layer:
    """The values that a file sets.

    Attributes:
        group: group of the file, e.g. "env/train"; empty for the root file.
        option: name of the file's option in its group.
        file: path of the file; None for an installed component without a file.
        package: dotted path of the section that the file's keys are in; empty for the root.
        values: nested from the root of the configuration, with interpolations unresolved.
    """

    group: str
    option: str
    file: Path | None
    package: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class FileValues:
    """The values composed from files.

    Attributes:
        values: nested values, with interpolations unresolved.
        choices: the option chosen in each group; groups without an option are absent.
        layers: the files, in the order in which they are merged; later ones win.
    """

    values: dict[str, Any]
    choices: Mapping[str, str]
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Sources:
    """The files of a configuration, before `section.key=value` of the command line.

    Attributes:
        files: of all group choices.
        recipe: of the recipe alone, or of the chosen components if there is no recipe.
    """

    files: FileValues
    recipe: FileValues


def merged(trees: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge nested mappings; later values win, except that `???` never replaces a value."""
    result: dict[str, Any] = {}
    for tree in trees:
        for name, value in tree.items():
            before = result.get(name)
            if isinstance(value, Mapping):
                result[name] = merged([before, value] if isinstance(before, Mapping) else [value])
            elif name not in result or value != MISSING:
                result[name] = value
    return result
