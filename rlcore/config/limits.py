"""Ranges of single numbers. Light."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from rlcore.config.schema import RunConfig, TimeoutsConfig

SIDES = ("env.train", "env.eval")
PER_ENV = (
    "total_num_envs",
    "rollout_epoch",
    "group_size",
    "max_episode_steps",
    "trials_per_task",
    "video_cfg.fps",
)
AT_LEAST_ONE = (
    "cluster.num_nodes",
    "runner.keep_last",
    "cluster.torch_threads",
    "rollout.pipeline_stage_num",
    "rollout.forward_batch",
    "actor.micro_batch_size",
    "actor.global_batch_size",
    "actor.model.num_action_chunks",
    "algorithm.update_epoch",
    "collect.episodes_per_task",
    "collect.stride",
    "collect.max_episode_steps",
    "sft.max_steps",
    "sft.batch_size",
    "sft.val_interval",
    "sft.patience",
    *(f"{side}.{name}" for side in SIDES for name in PER_ENV),
)
AT_LEAST_ZERO = (
    "runner.seed",
    "cluster.simulator_restarts",
    "collect.action_noise",
    "actor.optim.lr_warmup_steps",
    "sft.lr_warmup_steps",
    *(f"{side}.num_processes" for side in SIDES),
)
MORE_THAN_ZERO = (
    "actor.optim.lr",
    "actor.optim.value_lr",
    "actor.optim.adam_eps",
    "actor.optim.clip_grad",
    "sft.lr",
    *(f"cluster.timeouts.{field.name}" for field in fields(TimeoutsConfig)),
)
BETAS = ("actor.optim.adam_beta1", "actor.optim.adam_beta2")
OFF_OR_POSITIVE = (
    "runner.max_epochs",
    "runner.max_steps",
    "runner.val_check_interval",
    "runner.save_interval",
)
OFF = -1


def violations(config: RunConfig) -> Iterator[str]:
    """A sentence for each number outside its range. Null, where a key may be null, is in it."""
    for least, paths in ((1, AT_LEAST_ONE), (0, AT_LEAST_ZERO)):
        for path in paths:
            value = value_of(config, path)
            if value is not None and not value >= least:  # so written, nan is outside
                yield f"{path} must be at least {least}, got {value}"
    for path in MORE_THAN_ZERO:
        if not value_of(config, path) > 0:
            yield f"{path} must be more than 0, got {value_of(config, path)}"
    for path in BETAS:
        if not 0 <= value_of(config, path) < 1:
            yield f"{path} must be in [0, 1), got {value_of(config, path)}"
    for path in OFF_OR_POSITIVE:
        value = value_of(config, path)
        if value != OFF and value < 1:
            yield f"{path} must be {OFF} (off) or at least 1, got {value}"
    if not 0 < config.algorithm.gamma <= 1:
        yield f"algorithm.gamma must be in (0, 1], got {config.algorithm.gamma}"
    if not 0 < config.collect.speed <= 1:
        yield f"collect.speed must be in (0, 1], got {config.collect.speed}"
    yield from _videos(config)
    yield from _supervision(config)


def _videos(config: RunConfig) -> Iterator[str]:
    for side in SIDES:
        video = value_of(config, f"{side}.video_cfg")
        if video.save_video and video.num_episodes < 1:
            yield (
                f"{side}.video_cfg.num_episodes must be at least 1 with save_video, "
                f"got {video.num_episodes}"
            )


def _supervision(config: RunConfig) -> Iterator[str]:
    """Some demonstrations train and some validate, of every task."""
    fraction, enabled = config.sft.val_fraction, config.sft.enabled
    if not 0 <= fraction < 1 or (enabled and fraction == 0):
        yield f"sft.val_fraction must be in (0, 1), got {fraction}"
    if enabled and config.collect.path is None and config.collect.episodes_per_task < 2:
        yield (
            "collect.episodes_per_task must be at least 2 with sft.enabled (one of them "
            f"validates), got {config.collect.episodes_per_task}"
        )


def value_of(config: RunConfig, path: str) -> Any:
    """The value at a dotted path."""
    value: Any = config
    for name in path.split("."):
        value = vars(value)[name]
    return value
