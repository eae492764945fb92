"""Compare configurations key by key, as plain values read from YAML. Light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema_tree import leaves


@dataclass(frozen=True)
class KeyDifference:
    """A key whose values are not all equal.

    Attributes:
        path: dotted path of the key.
        values: one per configuration; None if it does not have the key, or its value is null.
    """

    path: str
    values: tuple[Any, ...]


def differences(*configs: Mapping[str, Any], ignore: tuple[str, ...] = ()) -> list[KeyDifference]:
    """Return keys in which configurations differ, in the order of their first appearance.

    Args:
        configs: nested mappings.
        ignore: keys that are left out, together with all keys below them.
    """
    flat = [dict(leaves(config)) for config in configs]
    differing = []
    for path in dict.fromkeys(path for values in flat for path in values):
        values = tuple(leaf_values.get(path) for leaf_values in flat)
        skipped = any(path == key or path.startswith(f"{key}.") for key in ignore)
        if not skipped and any(value != values[0] for value in values):
            differing.append(KeyDifference(path, values))
    return differing
