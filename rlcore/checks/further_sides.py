"""Find the further evaluations of a training run, in addition to `env.eval`. Light."""

from __future__ import annotations

from rlcore.config.schema import RunConfig
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry

VALIDATION, FORGETTING = "validation", "forgetting"
"""Sides with starts for choosing a checkpoint, and with tasks that are not trained on."""


def further_sides(config: RunConfig, registry: Registry) -> dict[str, RunConfig]:
    """Return configurations whose `env.eval` a training run also evaluates on, by side's name.

    Empty in an evaluation, and if no plugin has the function `further_sides`.

    Raises:
        UserError: the settings of a further side are invalid.
    """
    if config.runner.only_eval or "further_sides" not in registry.names("function"):
        return {}
    find = load_target(registry.usable("function", "further_sides").spec.target)
    sides: dict[str, RunConfig] = find(config, registry)
    return sides
