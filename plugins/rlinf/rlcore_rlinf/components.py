"""Choose the components that a file of RLinf names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.catalog import SIDES
from rlcore.config.translation import put
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import Registry

TRAINED, ACTING = "actor.model.", "rollout.model."
"""Prefixes of the keys of the model that is trained, and of the model that acts."""
ALGORITHM_KEYS = ("adv_type", "loss_type")
"""Keys of `algorithm` that determine rlcore's algorithm."""


def choose(file: Path, values: Mapping[str, Any], registry: Registry) -> dict[str, str]:
    """Return the names of rlcore's components, by section.

    Args:
        file: the file, for error messages.
        values: its values by dotted path.

    Raises:
        ConfigError: a component is not named, or not installed.
    """
    sides = {f"env.{side}": values.get(f"env.{side}.env_type") for side in SIDES}
    names = {section: name for section, name in sides.items() if name is not None}
    if not names:
        raise ConfigError(
            f"{file} names no env: env.train.env_type or env.eval.env_type must be given"
        )
    model = values.get(f"{TRAINED}model_type", values.get(f"{ACTING}model_type"))
    if model is None:
        raise ConfigError(f"{file} names no model: actor.model.model_type must be given")
    names["actor.model"] = model
    for slot in SLOTS:
        name = names.get(slot.section)
        if name is not None and name not in registry.names(slot.kind):
            error = registry.not_found(slot.kind, str(name), registry.names(slot.kind))
            raise ConfigError(f"{file}: {slot.type_key}: {error.message}", hint=error.hint)
    algorithm = _algorithm(file, values, registry)
    return names if algorithm is None else {**names, "algorithm": algorithm}


def _algorithm(file: Path, values: Mapping[str, Any], registry: Registry) -> str | None:
    """Return the algorithm whose settings accept the file's `adv_type` and `loss_type`; None for
    an evaluation without them.

    Raises:
        ConfigError: the file has neither key, or no installed algorithm accepts their values.
    """
    wanted = {
        key: values[f"algorithm.{key}"]
        for key in ALGORITHM_KEYS
        if values.get(f"algorithm.{key}") is not None
    }
    if not wanted:
        if values.get("runner.only_eval"):
            return None
        raise ConfigError(f"{file} names no algorithm: algorithm.adv_type must be given")
    (slot,) = (slot for slot in SLOTS if slot.section == "algorithm")
    accepted: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in registry.names(slot.kind):
        keys = {key.path: key for key in schema_tree.walk(default_settings(registry, slot, name))}
        if all(key in keys for key in ALGORITHM_KEYS):
            accepted[name] = {key: keys[key].choices for key in ALGORITHM_KEYS}
    for name, choices in accepted.items():
        if all(value in choices[key] for key, value in wanted.items()):
            return name
    options = [
        f"{name} ({', '.join(f'{key}: ' + ' or '.join(choices[key]) for key in choices)})"
        for name, choices in accepted.items()
    ]
    given = ", ".join(f"algorithm.{key}={value}" for key, value in wanted.items())
    raise ConfigError(
        f"{file}: no algorithm has {given}; "
        f"choose from: {'; '.join(options) or 'none is installed'}",
        hint="rlcore plugins",
    )


def type_keys(components: Mapping[str, str]) -> dict[str, Any]:
    """Return a layer of nested values that names these components."""
    chosen = (slot for slot in SLOTS if slot.section in components)
    return nested({slot.type_key: components[slot.section] for slot in chosen})


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted path as nested values: `{"a.b": 1}` -> `{"a": {"b": 1}}`."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        put(result, path, value)
    return result
