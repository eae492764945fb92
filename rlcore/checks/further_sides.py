"""Name what a training run is evaluated on besides `env.eval`. Light."""

from __future__ import annotations

from rlcore.config.schema import RunConfig
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry

VALIDATION, FORGETTING = "validation", "forgetting"
"""Starts to choose on; tasks that are not trained on."""


def further_sides(config: RunConfig, registry: Registry) -> dict[str, RunConfig]:
    """The configurations whose `env.eval` a training run plays too, by the name of their side;
    none where no plugin lays them out.

    Raises:
        UserError: they can't be as they are asked for.
    """
    if config.runner.only_eval or "further_sides" not in registry.names("function"):
        return {}
    find = load_target(registry.usable("function", "further_sides").spec.target)
    sides: dict[str, RunConfig] = find(config, registry)
    return sides
