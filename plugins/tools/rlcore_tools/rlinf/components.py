"""Find the components that a file of RLinf selects."""

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

MODEL, ACTING = "actor.model.", "rollout.model."
"""Where a file has its model: the one that is trained, and the one that acts."""
TYPES_OF_ALGORITHM = ("adv_type", "loss_type")


def choose(file: Path, values: Mapping[str, Any], registry: Registry) -> dict[str, str]:
    """Our component for each section that the file has, by what it says of its type.

    Raises:
        ConfigError: it says nothing, or names one that is not installed.
    """
    sides = {f"env.{side}": values.get(f"env.{side}.env_type") for side in SIDES}
    names = {side: name for side, name in sides.items() if name is not None}
    if not names:
        raise ConfigError(
            f"{file} names no env: env.train.env_type or env.eval.env_type must be given"
        )
    model = values.get(f"{MODEL}model_type", values.get(f"{ACTING}model_type"))
    if model is None:
        raise ConfigError(f"{file} names no model: actor.model.model_type must be given")
    names["actor.model"] = model
    for slot in SLOTS:
        if slot.section in names and names[slot.section] not in registry.names(slot.kind):
            error = registry.not_found(
                slot.kind, str(names[slot.section]), registry.names(slot.kind)
            )
            raise ConfigError(f"{file}: {slot.type_key}: {error.message}", hint=error.hint)
    algorithm = _algorithm(file, values, registry)
    return names if algorithm is None else {**names, "algorithm": algorithm}


def _algorithm(file: Path, values: Mapping[str, Any], registry: Registry) -> str | None:
    """The algorithm whose settings take their `adv_type` and `loss_type`; None for an evaluation,
    which needs none."""
    asked = {name: values.get(f"algorithm.{name}") for name in TYPES_OF_ALGORITHM}
    asked = {name: value for name, value in asked.items() if value is not None}
    if values.get("runner.only_eval") and not asked:
        return None
    if not asked:
        raise ConfigError(f"{file} names no algorithm: algorithm.adv_type must be given")
    (slot,) = (slot for slot in SLOTS if slot.section == "algorithm")
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in registry.names(slot.kind):
        keys = {key.path: key for key in schema_tree.walk(default_settings(registry, slot, name))}
        if all(each in keys for each in TYPES_OF_ALGORITHM):
            known[name] = {each: keys[each].choices for each in TYPES_OF_ALGORITHM}
    for name, choices in known.items():
        if all(value in choices[key] for key, value in asked.items()):
            return name
    listed = []
    for name, choices in known.items():
        takes = ", ".join(f"{key}: {' or '.join(each)}" for key, each in choices.items())
        listed.append(f"{name} ({takes})")
    choosable = "; ".join(listed) or "none is installed"
    said = ", ".join(f"algorithm.{key}={value}" for key, value in asked.items())
    raise ConfigError(
        f"{file}: no algorithm here is {said}; choose from: {choosable}",
        hint="rlcore plugins",
    )


def type_keys(components: Mapping[str, str]) -> dict[str, Any]:
    """A layer of values that names them."""
    chosen = (slot for slot in SLOTS if slot.section in components)
    return nested({slot.type_key: components[slot.section] for slot in chosen})


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        put(result, path, value)
    return result
