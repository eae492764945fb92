"""Restrict what the configuration in a run's folder may do on the machine that reads it. Light.

A run's folder may come from elsewhere. Its configuration sets what to play and with which numbers;
it may not load code (keys that can are marked, see :class:`rlcore.config.schema.Door`), read
environment variables of this machine, or name folders of configurations to compose. The user can
allow a key by naming it on the command line, or all of them with `--trust`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.schema import RecipeConfig, RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.import_target import load_target
from rlcore.terminal.text import written

TRUST = "--trust"
INTERPOLATION = "${"
PATHS = frozenset("/\\")
"""Characters of paths, which would lead to files elsewhere."""


def require_values(path: Path, saved: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse a saved configuration that holds interpolations: a run writes values, and what is
    looked up here (`${oc.env:TOKEN}`) would stand in files that are handed on.

    Args:
        path: the file, for the message.
        saved: what it holds.
        given: keys of the command line, whose values take the place of the saved ones.

    Raises:
        ConfigError: names the first key that holds one.
    """
    given = {name.lower() for name in given}
    for key, value in schema_tree.leaves(saved):
        if INTERPOLATION in str(value) and key.lower() not in given:
            raise ConfigError(
                f"{path}: {key} is {value!r}, but the configuration of a run must hold values: "
                "nothing is looked up for it",
                hint=f"give the value yourself: {key}=...",
            )


def require_closed_doors(path: Path, config: RunConfig, given: Collection[str]) -> None:
    """Refuse a saved configuration that lets code in.

    Args:
        path: the file, for the message.
        config: what it holds, with the changes of the command line.
        given: keys of the command line, which are the user's own word.

    Raises:
        ConfigError: says what would be let in.
    """
    given = {name.lower() for name in given}
    for key in schema_tree.walk(config):
        if key.door is None or key.path.lower() in given or key.value in key.door.harmless:
            continue
        if key.door.known and load_target(key.door.known)(key.value):
            continue
        words = ", ".join(map(str, schema_tree.values_of(key.value)))
        raise ConfigError(
            f"{path} sets {key.path}: this {key.door.does} {words}, which {key.door.risk}",
            hint=f"if you trust whoever made the folder: {TRUST}, or give it yourself: "
            f"{key.path}={written(key.value)}",
        )


def own_recipe(recipe: RecipeConfig, groups: Collection[str]) -> RecipeConfig:
    """What of a saved recipe may be composed again: choices of what is installed here."""
    choices = [
        choice
        for choice in recipe.choices
        if choice.lstrip("+").partition("=")[0] in groups
        and INTERPOLATION not in choice
        and not PATHS.intersection(choice.partition("=")[2])  # an option is a name
    ]
    return replace(recipe, choices=choices, config_dirs=[])
