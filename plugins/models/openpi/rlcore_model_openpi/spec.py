"""What the keys of `actor.model` come to, and whether they fit each other and the env. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from rlcore.errors import ConfigError, did_you_mean
from rlcore.specs import EnvSpec, PolicySpec
from rlcore_model_openpi.data_configs import DataConfig, data_config
from rlcore_model_openpi.files import check_folder, load_stats
from rlcore_model_openpi.layout import NOISE_HEAD, VALUE_HEAD, head_shapes
from rlcore_model_openpi.normalize import Normalizer
from rlcore_model_openpi.settings import (
    NOISE_METHODS,
    VALUE_TYPES,
    VALUE_VLM_MODES,
    OpenPIModelConfig,
)
from rlcore_model_openpi.sizes import (
    SIZES,
    NetworkSize,
    expert_parameter_count,
    lora_parameter_count,
    vlm_parameter_count,
)

KEY = "actor.model.openpi"
IMAGE_SLOTS = 3
"""Cameras of the published networks: base, left wrist, right wrist."""

_STATE_PROMPT = 200  # tokens of published prompts that hold the state
_NOISE_HIDDEN = (128, 64)  # those of heads.NoiseHead, which needs torch to be read


@dataclass(frozen=True)
class Resolved:
    """The settings with every null filled in.

    Attributes:
        data: the robot.
        size: the network, with its horizon and generation set.
        num_images: cameras read.
        discrete_state: whether the prompt holds the state (π0.5).
        action_dim: A, entries of the env's action.
        critic_hidden: hidden widths of the critic.
        values: V, values per decision; 0 without a critic.
    """

    data: DataConfig
    size: NetworkSize
    num_images: int
    discrete_state: bool
    action_dim: int
    critic_hidden: tuple[int, ...]
    values: int

    @property
    def uses_state(self) -> bool:
        """π0 always reads the state; π0.5 through its prompt, or not at all."""
        return self.discrete_state or not self.size.pi05


def resolve(config: OpenPIModelConfig, env_spec: EnvSpec) -> Resolved:
    """Fill in the nulls. ConfigError for unknown names."""
    openpi = config.openpi
    data = data_config(openpi.config_name)
    discrete = openpi.discrete_state_input
    discrete = data.discrete_state_input if discrete is None else discrete
    return Resolved(
        data=data,
        size=_size(config, data, discrete_state=discrete),
        num_images=_given(openpi.num_images_in_input, config.num_images_in_input),
        discrete_state=discrete,
        action_dim=_given(config.action_dim, env_spec.action_dim),
        critic_hidden=tuple(openpi.critic_hidden or data.critic_hidden),
        values=_values(config),
    )


def policy_spec(config: OpenPIModelConfig, env_spec: EnvSpec) -> PolicySpec:
    """Facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: a value out of its range, or settings that contradict each other or the env.
        CheckpointError: a checkpoint that is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    for check in (_check_ranges, _check_exploration, _check_critic, _check_training, _check_env):
        check(config, resolved, env_spec)
    # loaded only where a policy is asked for: listing the models needs no SentencePiece
    from rlcore_model_openpi.tokenizer import fresh_tokenizer, load_tokenizer

    if config.model_path is None:
        tokenizer = fresh_tokenizer(env_spec.said, resolved.size)
    else:
        folder = Path(config.model_path)
        check_folder(folder, resolved.size, _head_shapes(config, resolved))
        tokenizer = load_tokenizer(folder, resolved.size)
        checkpoint_stats(config, resolved, env_spec)
    tokenizer.checked(env_spec.said, env_spec.state_dim if resolved.discrete_state else None)
    total, trainable = _parameters(config, resolved)
    return PolicySpec(
        name=config.model_type,
        num_images=resolved.num_images,
        state_dim=resolved.size.action_dim if resolved.uses_state else 0,
        action_dim=resolved.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=resolved.size.action_horizon,
        value_dim=resolved.values,
        sft="flow_matching",
        parameters=total,
        trainable_parameters=trainable,
        cache_numbers=_cached(config, resolved),
        gradient_checkpointing=True,
    )


def masked_images(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Missing cameras that must be fed as masked images.

    No existing token sees a masked one, so they are left out. But the prompt's padding attends to
    all tokens alike (openpi's additive mask), and a critic that averages over the padding, or
    reads the last token, sees that: published critics had all slots.
    """
    openpi = config.openpi
    reads_padding = (
        config.add_value_head and openpi.value_after_vlm and openpi.value_vlm_mode != "first_token"
    )
    return IMAGE_SLOTS - resolved.num_images if reads_padding else 0


def checkpoint_stats(
    config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec
) -> Normalizer:
    """Normalisation statistics of the checkpoint at `model_path`, see :func:`load_stats`."""
    assert config.model_path is not None
    return load_stats(
        Path(config.model_path),
        env_spec,
        asset_id=config.openpi.asset_id,
        default_id=resolved.data.asset_id,
        quantile=resolved.data.pi05,
    )


def _size(config: OpenPIModelConfig, data: DataConfig, *, discrete_state: bool) -> NetworkSize:
    """The named size, of the generation, horizon and prompt length asked for."""
    openpi = config.openpi
    published = "pi05" if data.pi05 else "pi0"
    name = openpi.size or published
    if name not in SIZES:
        raise ConfigError(
            f"{KEY}.size must be one of {', '.join(SIZES)}; got {name!r}."
            f"{did_you_mean(name, SIZES)}"
        )
    if name in ("pi0", "pi05") and name != published:
        raise ConfigError(
            f"{KEY}.size is {name!r}, but config_name {data.name!r} is for {published!r}",
            hint=f"set {KEY}.size={published}, or another config_name",
        )
    size = SIZES[name]
    return replace(
        size,
        pi05=data.pi05,
        action_horizon=_given(openpi.action_horizon, data.action_horizon),
        max_token_len=_given(
            openpi.max_token_len, _STATE_PROMPT if discrete_state else size.max_token_len
        ),
    )


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _values(config: OpenPIModelConfig) -> int:
    """V: none, one per decision or one per executed action."""
    if not config.add_value_head:
        return 0
    return config.num_action_chunks if config.openpi.value_type == "action_level" else 1


def _parameters(config: OpenPIModelConfig, resolved: Resolved) -> tuple[int, int]:
    """All parameters, and those that reinforcement trains."""
    size, heads = resolved.size, _head_parameters(config, resolved)
    adapters = lora_parameter_count(size, config.lora_rank) if config.is_lora else 0
    expert = expert_parameter_count(size) + heads + adapters
    frozen_vlm = config.openpi.train_expert_only or config.is_lora
    total = expert + vlm_parameter_count(size)
    return total, expert if frozen_vlm else total


def _cached(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """What the VLM gives of a row and all denoising steps attend to: keys and values of cameras and
    prompt, padding included; its output too, where the critic reads that."""
    size = resolved.size
    images = resolved.num_images + masked_images(config, resolved)
    tokens = images * size.image_tokens + size.max_token_len
    output = size.vlm_width if config.add_value_head and config.openpi.value_after_vlm else 0
    return tokens * (2 * size.depth * size.kv_heads * size.head_dim + output)


def _head_parameters(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Parameters of the critic and of the noise head, where there are any."""
    shapes = _head_shapes(config, resolved)
    return sum(prod(shape) for head in shapes.values() for shape in head.values())


def _head_shapes(
    config: OpenPIModelConfig, resolved: Resolved
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Shapes of the parameters of the critic and of the noise head, where there are any."""
    size, openpi = resolved.size, config.openpi
    widths: dict[str, list[int]] = {}
    if config.add_value_head:
        width = size.vlm_width if openpi.value_after_vlm else size.expert_width
        inputs = width + int(openpi.critic_elapsed)
        widths[VALUE_HEAD] = [inputs, *resolved.critic_hidden, resolved.values]
    if openpi.noise_method == "flow_noise":
        widths[NOISE_HEAD] = [size.expert_width, *_NOISE_HIDDEN, size.action_dim]
    return {head: head_shapes(head, each) for head, each in widths.items()}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _check_ranges(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    openpi, horizon = config.openpi, resolved.size.action_horizon
    _require(openpi.num_steps >= 1, f"{KEY}.num_steps must be at least 1, got {openpi.num_steps}")
    _require(horizon >= 1, f"{KEY}.action_horizon must be at least 1, got {horizon}")
    tokens = resolved.size.max_token_len
    _require(tokens >= 2, f"{KEY}.max_token_len must be at least 2, got {tokens}")
    _require(
        1 <= config.num_action_chunks <= horizon,
        f"actor.model.num_action_chunks must be in 1..{horizon}, the actions that {KEY} predicts "
        f"per decision (action_horizon), got {config.num_action_chunks}",
    )
    _require(
        1 <= resolved.num_images <= IMAGE_SLOTS,
        f"num_images_in_input must be in 1..{IMAGE_SLOTS}, got {resolved.num_images}",
    )
    _require(
        not resolved.discrete_state or resolved.data.pi05,
        f"{KEY}.discrete_state_input is for π0.5; config_name {resolved.data.name!r} is π0",
    )


def _check_exploration(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    openpi = config.openpi
    method = openpi.noise_method
    _require(
        method in NOISE_METHODS,
        f"{KEY}.noise_method must be one of {', '.join(NOISE_METHODS)}; got {method!r}."
        f"{did_you_mean(method, NOISE_METHODS)}",
    )
    _require(openpi.noise_level >= 0, f"{KEY}.noise_level must be >= 0, got {openpi.noise_level}")
    _require(
        not openpi.noise_anneal or method in ("flow_sde", "flow_cps"),
        f"{KEY}.noise_anneal must be false with noise_method {method}, which has no noise level",
    )
    _require(
        len(openpi.noise_params) == 3 and min(openpi.noise_params) >= 0
        and openpi.noise_params[2] > 0,
        f"{KEY}.noise_params must be [start, end, updates], got {openpi.noise_params}",
    )  # fmt: skip
    low_high = openpi.noise_logvar_range
    _require(
        len(low_high) == 2 and 0 < low_high[0] <= low_high[1],
        f"{KEY}.noise_logvar_range must be [least, greatest] std, both > 0, got {low_high}",
    )
    _require(
        not (openpi.joint_logprob and method == "flow_ode"),
        f"{KEY}.joint_logprob must be false with noise_method flow_ode, which has no log-prob",
    )
    _require(
        not (openpi.ignore_last and openpi.joint_logprob),
        f"{KEY}.ignore_last must be false with joint_logprob, where every step is stochastic",
    )
    _require(
        not openpi.ignore_last or openpi.num_steps >= 2,
        f"{KEY}.num_steps must be at least 2 with ignore_last, got {openpi.num_steps}",
    )


def _check_critic(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    openpi = config.openpi
    _require(
        openpi.value_vlm_mode in VALUE_VLM_MODES,
        f"{KEY}.value_vlm_mode must be one of {', '.join(VALUE_VLM_MODES)}; "
        f"got {openpi.value_vlm_mode!r}.{did_you_mean(openpi.value_vlm_mode, VALUE_VLM_MODES)}",
    )
    _require(
        openpi.value_type in VALUE_TYPES,
        f"{KEY}.value_type must be one of {', '.join(VALUE_TYPES)}; got {openpi.value_type!r}."
        f"{did_you_mean(openpi.value_type, VALUE_TYPES)}",
    )
    _require(
        not (openpi.value_after_vlm and openpi.chunk_critic_input),
        f"{KEY}.chunk_critic_input must be false with value_after_vlm: "
        "the VLM's output has no action tokens",
    )


def _check_training(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    _require(
        not (config.is_lora and config.openpi.train_expert_only),
        f"{KEY}.train_expert_only must be false with actor.model.is_lora: "
        "the adapters are the VLM's",
    )
    _require(
        not config.save_adapters_only,
        "actor.model.save_adapters_only must be false: besides the adapters the whole action "
        "expert is trained, so they are no policy alone",
    )
    _require(
        not config.is_lora or config.lora_rank >= 1,
        f"actor.model.lora_rank must be at least 1, got {config.lora_rank}",
    )


def _check_env(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    data, size, env = resolved.data, resolved.size, env_spec.name
    cameras = len(env_spec.cameras)
    _require(
        resolved.num_images <= cameras,
        f"num_images_in_input is {resolved.num_images}, but env {env!r} has {cameras} camera(s): "
        f"{', '.join(camera.name for camera in env_spec.cameras)}",
    )
    _require(
        resolved.action_dim == env_spec.action_dim,
        f"actor.model.action_dim is {resolved.action_dim}, but actions of env {env!r} have "
        f"{env_spec.action_dim} entries",
    )
    _require(
        env_spec.action_dim <= size.action_dim,
        f"actions of env {env!r} have {env_spec.action_dim} entries, the network has room for "
        f"{size.action_dim}",
    )
    _require(
        not resolved.uses_state or env_spec.state_dim <= size.action_dim,
        f"the state of env {env!r} has {env_spec.state_dim} entries, the network has room for "
        f"{size.action_dim}",
    )
    least = data.entries or len(data.delta_mask)
    _require(
        min(env_spec.action_dim, env_spec.state_dim) >= least,
        f"config_name {data.name!r} needs a state and actions of at least {least} entries; env "
        f"{env!r} has {env_spec.state_dim} and {env_spec.action_dim}",
    )
    _require(
        data.entries is None or env_spec.action_dim == env_spec.state_dim == data.entries,
        f"config_name {data.name!r} is for {data.entries} state and action entries; env {env!r} "
        f"has {env_spec.state_dim} and {env_spec.action_dim}",
    )
