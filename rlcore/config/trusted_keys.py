"""Restrict what the configuration in a run's folder may do on the machine that reads it. Light.

A run's folder may come from another person. Its configuration may choose components and their
values. It may not set keys that load code (these are declared with a
:class:`rlcore.config.schema.TrustedKey`), read environment variables of this machine, or name
folders of configurations to compose. The user can allow a key by giving it on the command line, or
allow all keys that load code with `--trust`.
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
from rlcore.utils.text import format_value

TRUST = "--trust"
INTERPOLATION = "${"
PATHS = frozenset("/\\")
"""Separators of paths. An option that contains one would be a path to a file elsewhere."""


def require_values(path: Path, saved: Mapping[str, Any], overridden: Collection[str]) -> None:
    """Refuse a saved configuration that contains interpolations.

    A run saves resolved values. An interpolation such as `${oc.env:TOKEN}` would write a secret of
    this machine into files that may be passed on.

    Args:
        path: the file, for the error message.
        saved: its values.
        overridden: keys of the command line, whose values replace the saved ones.

    Raises:
        ConfigError: names the first key with an interpolation.
    """
    overridden = {name.lower() for name in overridden}
    for key, value in schema_tree.leaves(saved):
        if INTERPOLATION in str(value) and key.lower() not in overridden:
            raise ConfigError(
                f"{path}: {key} is {value!r}, but the configuration of a run must hold values: "
                "nothing is looked up for it",
                hint=f"give the value yourself: {key}=...",
            )


def require_trusted_keys(path: Path, config: RunConfig, overridden: Collection[str]) -> None:
    """Refuse a saved configuration that sets a key that only a trusted folder may set.

    Such a key is declared with a :class:`rlcore.config.schema.TrustedKey`.

    Values that are harmless, and values that the user has already allowed on this machine, pass.

    Args:
        path: the file, for the error message.
        config: the file's configuration, with the changes of the command line.
        overridden: keys of the command line, which the user has set and thereby allowed.

    Raises:
        ConfigError: names the key, its value and its risk.
    """
    overridden = {name.lower() for name in overridden}
    for key in schema_tree.walk(config):
        if (
            key.trusted is None
            or key.path.lower() in overridden
            or key.value in key.trusted.harmless_values
        ):
            continue
        if key.trusted.allowed and load_target(key.trusted.allowed)(key.value):
            continue
        words = ", ".join(map(str, schema_tree.values_of(key.value)))
        raise ConfigError(
            f"{path} sets {key.path}: this {key.trusted.effect} {words}, which {key.trusted.risk}",
            hint=f"if you trust the author of the folder: {TRUST}, or give it yourself: "
            f"{key.path}={format_value(key.value)}",
        )


def composable_recipe(recipe: RecipeConfig, groups: Collection[str]) -> RecipeConfig:
    """Return the part of a saved recipe that may be composed again on this machine.

    Only choices from known groups remain, without interpolations and paths, and no config folders.

    Args:
        groups: the known groups.
    """
    choices = [
        choice
        for choice in recipe.choices
        if choice.lstrip("+").partition("=")[0] in groups
        and INTERPOLATION not in choice
        and not PATHS.intersection(choice.partition("=")[2])  # an option is a name
    ]
    return replace(recipe, choices=choices, config_dirs=[])
