"""Ranges of single numbers. Light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlcore.config.schema import RunConfig

PER_ENV = ("total_num_envs", "rollout_epoch", "group_size", "max_episode_steps", "trials_per_task")
POSITIVE = (
    "cluster.num_nodes",
    "rollout.pipeline_stage_num",
    "actor.micro_batch_size",
    "actor.global_batch_size",
    "actor.model.num_action_chunks",
    "algorithm.update_epoch",
    "collect.episodes_per_task",
    "collect.stride",
    "sft.max_steps",
    "sft.batch_size",
    "sft.val_interval",
    *(f"env.{side}.{name}" for side in ("train", "eval") for name in PER_ENV),
)
OFF_OR_POSITIVE = (
    "runner.max_epochs",
    "runner.max_steps",
    "runner.val_check_interval",
    "runner.save_interval",
)
OFF = -1


def violations(config: RunConfig) -> Iterator[str]:
    """A sentence for each number outside its range."""
    for path in POSITIVE:
        if value_of(config, path) < 1:
            yield f"{path} must be at least 1, got {value_of(config, path)}"
    for path in OFF_OR_POSITIVE:
        value = value_of(config, path)
        if value != OFF and value < 1:
            yield f"{path} must be {OFF} (off) or at least 1, got {value}"
    if config.runner.seed < 0:
        yield f"runner.seed must be at least 0, got {config.runner.seed}"
    if not 0 < config.algorithm.gamma <= 1:
        yield f"algorithm.gamma must be in (0, 1], got {config.algorithm.gamma}"
    if not 0 < config.collect.speed <= 1:
        yield f"collect.speed must be in (0, 1], got {config.collect.speed}"
    if not 0 <= config.sft.val_fraction < 1:
        yield f"sft.val_fraction must be in [0, 1), got {config.sft.val_fraction}"


def value_of(config: RunConfig, path: str) -> Any:
    """The value at a dotted path."""
    value: Any = config
    for name in path.split("."):
        value = vars(value)[name]
    return value
