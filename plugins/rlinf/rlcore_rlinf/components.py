"""Choose the components that a file of RLinf names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config.bind import SLOTS
from rlcore.config.catalog import SIDES
from rlcore.config.translation import put
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.extras import install_command
from rlcore.plugins.registry import Registry
from rlcore_rlinf.rules import RULES, openpi, supervised

TRAINED = "actor.model."
"""Prefix of the keys of the model that is trained."""
ACTING = "rollout.model."
"""Prefix of the keys of the model in rollouts."""
ALGORITHMS = {
    "algorithm.adv_type": {"gae": "ppo", "grpo": "grpo"},
    "algorithm.loss_type": {"actor_critic": "ppo", "actor": "grpo"},
}
"""The algorithm that a value of these keys selects."""


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
    is_supervised = supervised.is_supervised(values.get(supervised.TASK_TYPE))
    if not names and is_supervised:
        config_name = values.get(supervised.CONFIG_NAME)
        rules = [name for kind, name in RULES if kind == "env"]
        env = supervised.env_of(config_name, registry.names("env"), rules)
        names = {} if env is None else dict.fromkeys(sides, env)
    if not names:
        raise ConfigError(
            f"{file} names no env: env.train.env_type or env.eval.env_type must be given",
            hint=f"{install_command(['lerobot'])} for env=data, whose robot is that of a data set"
            if is_supervised
            else None,
        )
    model = values.get(f"{TRAINED}model_type", values.get(f"{ACTING}model_type"))
    if model is None:
        raise ConfigError(f"{file} names no model: actor.model.model_type must be given")
    names["actor.model"] = openpi.IMPLEMENTATIONS.get(model, model)
    algorithm = _algorithm(file, values)
    if algorithm is not None:
        names["algorithm"] = algorithm
    for slot in SLOTS:
        name = names.get(slot.section)
        if name is not None and name not in registry.names(slot.kind):
            error = registry.not_found(slot.kind, str(name), registry.names(slot.kind))
            raise ConfigError(f"{file}: {slot.type_key}: {error.message}", hint=error.hint)
    return names


def _algorithm(file: Path, values: Mapping[str, Any]) -> str | None:
    """Return the algorithm with the file's `adv_type` and `loss_type`.

    None for supervised training, which uses none, and for an evaluation without these keys.

    Raises:
        ConfigError: the file has neither key, or no algorithm has their values.
    """
    if supervised.is_supervised(values.get(supervised.TASK_TYPE)):
        return None
    selected = {key: values[key] for key in ALGORITHMS if values.get(key) is not None}
    if not selected:
        if values.get("runner.only_eval"):
            return None
        raise ConfigError(f"{file} names no algorithm: algorithm.adv_type must be given")
    names = {ALGORITHMS[key].get(str(value), "") for key, value in selected.items()}
    if len(names) > 1 or "" in names:
        pairs = " ".join(f"{key}={value}" for key, value in selected.items())
        options = "; ".join(f"{key}: {', '.join(choices)}" for key, choices in ALGORITHMS.items())
        raise ConfigError(f"{file}: no algorithm has {pairs}; choose from: {options}")
    return names.pop()


def type_keys(components: Mapping[str, str]) -> dict[str, Any]:
    """Return a layer of nested values that names these components."""
    slots = (slot for slot in SLOTS if slot.section in components)
    return nested({slot.type_key: components[slot.section] for slot in slots})


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted path as nested values: `{"a.b": 1}` -> `{"a": {"b": 1}}`."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        put(result, path, value)
    return result
