"""Generate a JSON schema of recipes, with which editors complete keys and mark errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rlcore.api import compose
from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.catalog import Catalog
from rlcore.contracts.errors import UserError
from rlcore.plugins.registry import load_plugins

TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
RESOLVED = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}
"""Schema of an interpolation (`${...}`) or a missing required value (`???`)."""


def schema(words: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of a recipe file.

    Args:
        words: words of a command line that choose components. The schema has the keys of these
            components; without words, those of all installed components.
        config_dirs: further folders with configuration files.

    Raises:
        ConfigError: the words can't be composed to a configuration.
    """
    registry = load_plugins()
    root = compose(None, *words, config_dirs=config_dirs, require=(), draft=True)
    keys = {key.path: key for key in schema_tree.walk(root)}
    for slot in SLOTS:
        for name in () if words else registry.names(slot.kind):
            with suppress(UserError):  # `rlcore plugins` reports broken settings
                section = default_settings(registry, slot, name)
                for key in schema_tree.walk(section, slot.section):
                    keys.setdefault(key.path, key)
    tree = _section("a recipe of rlcore")
    for key in keys.values():
        *above, last = key.path.split(".")
        place = tree
        for name in above:
            place = place["properties"][name]
        place["properties"][last] = _section(key.help) if key.section else _value(key)
    groups = {group: {"enum": Catalog(registry, config_dirs).options(group)} for group in
              ("env", "model", "algorithm")}  # fmt: skip
    tree["properties"]["defaults"] = {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {f"override /{name}": one for name, one in groups.items()},
                },
            ]
        },
    }
    tree["properties"]["hydra"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **tree}


def _section(help: str) -> dict[str, Any]:
    return {
        "type": "object", "description": help, "properties": {}, "additionalProperties": False
    }  # fmt: skip


def _value(key: schema_tree.Key) -> dict[str, Any]:
    kinds = [kind for part in key.type.split("|") if (kind := _kind(part.strip()))]
    value: dict[str, Any] = {"description": key.help}
    if key.default not in (None, "???"):
        value["default"] = key.default
    if "Any" in key.type or not kinds:
        return value
    for kind in kinds:
        if kind["type"] in ("integer", "number"):
            kind |= _bounds(key)
        if kind["type"] == "string" and key.choices:
            kind["enum"] = [*key.choices]
    return value | {"anyOf": [*kinds, RESOLVED]}


def _bounds(key: schema_tree.Key) -> dict[str, Any]:
    """Return the bounds of a key's range in JSON schema's terms.

    They are left out if a value outside the range is allowed too, as it switches the key off.
    """
    of = key.range
    if of.disabled is not None:
        return {}
    named = {"minimum": of.minimum, "exclusiveMinimum": of.exclusive_minimum, "maximum": of.maximum,
             "exclusiveMaximum": of.exclusive_maximum}  # fmt: skip
    return {name: bound for name, bound in named.items() if bound is not None}


def _kind(written: str) -> dict[str, Any] | None:
    """Return the JSON type of a Python annotation, or None if JSON has no such type."""
    if written == "None":
        return {"type": "null"}
    if found := re.fullmatch(r"(list|dict|tuple|Mapping|Sequence)\[.*\]|list|dict", written):
        return {"type": "object" if found[0].startswith(("dict", "Mapping")) else "array"}
    return {"type": TYPES[written]} if written in TYPES else None
