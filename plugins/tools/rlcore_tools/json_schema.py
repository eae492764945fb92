"""A JSON schema of recipes, by which editors complete keys and underline what is wrong."""

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
"""A value that refers to others, or must be given."""


def schema(words: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> dict[str, Any]:
    """The schema of a recipe's file: the keys of the components that the words choose; where none
    are chosen, of all that are installed.

    Raises:
        ConfigError: the words don't compose.
    """
    registry = load_plugins()
    root = compose(None, *words, config_dirs=config_dirs, require=(), draft=True)
    keys = {key.path: key for key in schema_tree.walk(root)}
    for slot in SLOTS:
        for name in () if words else registry.names(slot.kind):
            with suppress(UserError):  # `rlcore plugins` names it
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
    """Those of its range; the one value outside that switches it off would not fit into them."""
    of = key.range
    if of.off is not None:
        return {}
    named = {"minimum": of.least, "exclusiveMinimum": of.above, "maximum": of.most,
             "exclusiveMaximum": of.below}  # fmt: skip
    return {name: bound for name, bound in named.items() if bound is not None}


def _kind(written: str) -> dict[str, Any] | None:
    """What JSON calls a type as it is written in a dataclass; None: it has no name for it."""
    if written == "None":
        return {"type": "null"}
    if found := re.fullmatch(r"(list|dict|tuple|Mapping|Sequence)\[.*\]|list|dict", written):
        return {"type": "object" if found[0].startswith(("dict", "Mapping")) else "array"}
    return {"type": TYPES[written]} if written in TYPES else None
