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
        *sections, last = key.path.split(".")
        section_schema = tree
        for name in sections:
            section_schema = section_schema["properties"][name]
        section_schema["properties"][last] = _section(key.help) if key.section else _value(key)
    catalog = Catalog(registry, config_dirs)
    overrides = {
        f"override /{group}": {"enum": catalog.options(group)}
        for group in ("env", "model", "algorithm")
    }
    tree["properties"]["defaults"] = {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": overrides},
            ]
        },
    }
    tree["properties"]["hydra"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **tree}


def _section(help: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": help,
        "properties": {},
        "additionalProperties": False,
    }


def _value(key: schema_tree.Key) -> dict[str, Any]:
    types = [
        json_type
        for annotation in key.type.split("|")
        if (json_type := _json_type(annotation.strip()))
    ]
    value: dict[str, Any] = {"description": key.help}
    if key.default not in (None, "???"):
        value["default"] = key.default
    if "Any" in key.type or not types:
        return value
    for json_type in types:
        if json_type["type"] in ("integer", "number"):
            json_type |= _bounds(key)
        if json_type["type"] == "string" and key.choices:
            json_type["enum"] = [*key.choices]
    return value | {"anyOf": [*types, RESOLVED]}


def _bounds(key: schema_tree.Key) -> dict[str, Any]:
    """Return the bounds of a key's range in JSON schema's terms.

    They are left out if a value outside the range is allowed too, as it switches the key off.
    """
    limits = key.range
    if limits.disabled is not None:
        return {}
    bounds = {
        "minimum": limits.minimum,
        "exclusiveMinimum": limits.exclusive_minimum,
        "maximum": limits.maximum,
        "exclusiveMaximum": limits.exclusive_maximum,
    }
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _json_type(annotation: str) -> dict[str, Any] | None:
    """Return the JSON type of a Python annotation, or None if JSON has no such type."""
    if annotation == "None":
        return {"type": "null"}
    if re.fullmatch(r"(list|dict|tuple|Mapping|Sequence)\[.*\]|list|dict", annotation):
        return {"type": "object" if annotation.startswith(("dict", "Mapping")) else "array"}
    return {"type": TYPES[annotation]} if annotation in TYPES else None
