"""Check the settings that flow policies share against each other. No tensor library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.config.schema import ModelConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import EnvSpec
from rlcore_flow.head_shapes import HEADS_FILE
from rlcore_flow.settings import FlowSettings


def check_heads(
    place: Path,
    trained: Mapping[str, Mapping[str, Any]],
    current: Mapping[str, Mapping[str, Any]],
    key: str,
) -> None:
    """Check that stored heads were trained with the settings of the policy.

    Heads whose shapes fit may still have been trained on another input, or their outputs may have
    had another meaning. Settings that are not recorded are not compared.

    Args:
        place: file or folder of the heads.
        trained: recorded settings of each head.
        current: settings of each head of the policy, see
            :func:`rlcore_flow.head_shapes.heads_trained_with`.
        key: dotted path of the settings.

    Raises:
        CheckpointError: settings differ; it names them.
    """
    different = [
        f"{name} {trained[head][name]!r} (got {value!r})"
        for head, settings in current.items()
        for name, value in settings.items()
        if name in trained.get(head, {}) and not _same(trained[head][name], value)
    ]
    if different:
        raise CheckpointError(
            f"the heads in {place} were trained with other settings: {', '.join(different)}",
            hint=f"use their settings (keys of {key}), or move {HEADS_FILE} away to start with "
            "fresh heads",
        )


def _same(trained: Any, current: Any) -> bool:
    """Return whether two settings are equal.

    Lists of numbers may differ by 1 %, because RLinf rounds them to bfloat16.
    """
    if isinstance(trained, list) and isinstance(current, list):
        return len(trained) == len(current) and all(
            math.isclose(a, b, rel_tol=0.01) for a, b in zip(trained, current, strict=True)
        )
    return bool(trained == current)


def require(condition: bool, message: str, hint: str | None = None) -> None:
    """Raise a ConfigError unless a condition holds."""
    if not condition:
        raise ConfigError(message, hint=hint)


def check_exploration(key: str, settings: FlowSettings) -> None:
    """Check the settings of the exploration noise.

    Args:
        key: dotted path of the settings.

    Raises:
        ConfigError: two of them exclude each other.
    """
    method = settings.noise_method
    require(
        not settings.noise_anneal or method in ("flow_sde", "flow_cps"),
        f"{key}.noise_anneal must be false with noise_method {method}, which has no noise level",
    )
    require(
        len(settings.noise_params) == 3 and settings.noise_params[2] > 0,
        f"{key}.noise_params must be [start, end, updates], got {settings.noise_params}",
    )
    low_high = settings.noise_logvar_range
    require(
        len(low_high) == 2 and low_high[0] <= low_high[1],
        f"{key}.noise_logvar_range must be [minimum, maximum] std, got {low_high}",
    )
    require(
        not (settings.joint_logprob and method == "flow_ode"),
        f"{key}.joint_logprob must be false with noise_method flow_ode, which has no log-prob",
    )
    require(
        not (settings.ignore_last and settings.joint_logprob),
        f"{key}.ignore_last must be false with joint_logprob, where every step is stochastic",
    )
    require(
        not settings.ignore_last or settings.num_steps >= 2,
        f"{key}.num_steps must be at least 2 with ignore_last, got {settings.num_steps}",
    )
    require(
        method != "flow_cps" or settings.num_steps >= 2,
        f"{key}.num_steps must be at least 2 with noise_method flow_cps, which adds no noise in "
        f"its last step, got {settings.num_steps}",
        f"set {key}.num_steps=2 or more, or {key}.noise_method=flow_sde",
    )


def check_training(key: str, settings: FlowSettings, config: ModelConfig) -> None:
    """Check which weights are trained and saved.

    Raises:
        ConfigError: two settings exclude each other.
    """
    require(
        not (config.is_lora and settings.train_expert_only),
        f"{key}.train_expert_only must be false with actor.model.is_lora: "
        "the adapters are the VLM's",
    )
    require(
        not config.save_adapters_only,
        "actor.model.save_adapters_only must be false: besides the adapters the whole action "
        "expert is trained, so adapters alone are no policy",
    )
    require(
        config.lora_path is None,
        f"actor.model.lora_path must be null: {config.model_type} checkpoints hold whole weights, "
        f"got {config.lora_path!r}",
    )


def check_chunk(key: str, horizon: int, config: ModelConfig) -> None:
    """Check that a decision predicts as many actions as the env executes.

    Raises:
        ConfigError: it predicts fewer.
    """
    require(
        config.num_action_chunks <= horizon,
        f"actor.model.num_action_chunks must be at most {horizon}, the actions that {key} predicts "
        f"per decision (action_horizon), got {config.num_action_chunks}",
    )


def check_env(num_images: int, action_dim: int, env_spec: EnvSpec) -> None:
    """Check that the env has the cameras that the policy reads, and its actions.

    Raises:
        ConfigError: it doesn't.
    """
    env = env_spec.name
    cameras = len(env_spec.cameras)
    require(
        num_images <= cameras,
        f"num_images_in_input is {num_images}, but env {env!r} has {cameras} camera(s): "
        f"{', '.join(camera.name for camera in env_spec.cameras)}",
        f"set actor.model.num_images_in_input={cameras}, or let the env render more cameras",
    )
    require(
        action_dim == env_spec.action_dim,
        f"actor.model.action_dim is {action_dim}, but actions of env {env!r} have "
        f"{env_spec.action_dim} entries",
        f"set actor.model.action_dim={env_spec.action_dim}, or leave it out",
    )
