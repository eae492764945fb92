"""Check the settings of `actor.model` against each other and against the env. No torch."""

from __future__ import annotations

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec
from rlcore_model_openpi.data_configs import DATA_CONFIGS, same_robot
from rlcore_model_openpi.resolved import IMAGE_SLOTS, KEY, Resolved
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES


def check_settings(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    """Check that the settings fit each other and the env.

    The range of a single key is part of its declaration in settings.py and is not checked here.

    Raises:
        ConfigError: two values exclude each other, or a value doesn't fit the env.
    """
    for check in (_check_sizes, _check_exploration, _check_training, _check_env):
        check(config, resolved, env_spec)


def _require(condition: bool, message: str, hint: str | None = None) -> None:
    if not condition:
        raise ConfigError(message, hint=hint)


def _check_sizes(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    horizon = resolved.size.action_horizon
    _require(
        config.num_action_chunks <= horizon,
        f"actor.model.num_action_chunks must be at most {horizon}, the actions that {KEY} predicts "
        f"per decision (action_horizon), got {config.num_action_chunks}",
    )
    _require(
        resolved.num_images <= IMAGE_SLOTS,
        f"actor.model.num_images_in_input must be at most {IMAGE_SLOTS}, got {resolved.num_images}",
    )
    _require(
        not resolved.discrete_state or resolved.data.pi05,
        f"{KEY}.discrete_state_input is for π0.5; config_name {resolved.data.name!r} is π0",
        f"leave it out, or set {KEY}.config_name={same_robot(resolved.data, pi05=True)}",
    )


def _check_exploration(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    openpi = config.openpi
    method = openpi.noise_method
    _require(
        not openpi.noise_anneal or method in ("flow_sde", "flow_cps"),
        f"{KEY}.noise_anneal must be false with noise_method {method}, which has no noise level",
    )
    _require(
        len(openpi.noise_params) == 3 and openpi.noise_params[2] > 0,
        f"{KEY}.noise_params must be [start, end, updates], got {openpi.noise_params}",
    )
    low_high = openpi.noise_logvar_range
    _require(
        len(low_high) == 2 and low_high[0] <= low_high[1],
        f"{KEY}.noise_logvar_range must be [minimum, maximum] std, got {low_high}",
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
    _require(
        method != "flow_cps" or openpi.num_steps >= 2,
        f"{KEY}.num_steps must be at least 2 with noise_method flow_cps, which adds no noise in "
        f"its last step, got {openpi.num_steps}",
        f"set {KEY}.num_steps=2 or more, or {KEY}.noise_method=flow_sde",
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
        "expert is trained, so adapters alone are no policy",
    )
    _require(
        config.lora_path is None,
        f"actor.model.lora_path must be null: {config.model_type} checkpoints hold whole weights, "
        f"got {config.lora_path!r}",
    )


def _check_env(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> None:
    data = resolved.data
    size = resolved.size
    env = env_spec.name
    cameras = len(env_spec.cameras)
    _require(
        resolved.num_images <= cameras,
        f"num_images_in_input is {resolved.num_images}, but env {env!r} has {cameras} camera(s): "
        f"{', '.join(camera.name for camera in env_spec.cameras)}",
        f"set actor.model.num_images_in_input={cameras}, or let the env render more cameras",
    )
    _require(
        resolved.action_dim == env_spec.action_dim,
        f"actor.model.action_dim is {resolved.action_dim}, but actions of env {env!r} have "
        f"{env_spec.action_dim} entries",
        f"set actor.model.action_dim={env_spec.action_dim}, or leave it out",
    )
    _require(
        env_spec.action_dim <= size.action_dim,
        f"actions of env {env!r} have {env_spec.action_dim} entries, the network has room for "
        f"{size.action_dim}",
        _wider(resolved, env_spec.action_dim),
    )
    _require(
        not resolved.uses_state or env_spec.state_dim <= size.action_dim,
        f"the state of env {env!r} has {env_spec.state_dim} entries, the network has room for "
        f"{size.action_dim}",
        f"{_wider(resolved, env_spec.state_dim)}; or use a π0.5 that reads no state: "
        f"{KEY}.config_name={same_robot(data, pi05=True)} {KEY}.discrete_state_input=false",
    )
    least = data.entries or len(data.delta_mask)
    _require(
        min(env_spec.action_dim, env_spec.state_dim) >= least,
        f"config_name {data.name!r} needs a state and actions of at least {least} entries; env "
        f"{env!r} has {env_spec.state_dim} and {env_spec.action_dim}",
        _other_robot(resolved),
    )
    _require(
        data.entries is None or env_spec.action_dim == env_spec.state_dim == data.entries,
        f"config_name {data.name!r} is for {data.entries} state and action entries; env {env!r} "
        f"has {env_spec.state_dim} and {env_spec.action_dim}",
        _other_robot(resolved),
    )


def _wider(resolved: Resolved, entries: int) -> str:
    """Return a hint that names the network sizes with room for `entries` entries."""
    published = "pi05" if resolved.size.pi05 else "pi0"
    wide = [
        name
        for name, size in SIZES.items()
        if size.action_dim >= entries and name in (published, "small", "tiny_two_arms", "tiny")
    ]
    if not wide:
        return "choose another model, or an env with fewer entries"
    return f"set {KEY}.size={' or '.join(wide)}, which have room for {entries}"


def _other_robot(resolved: Resolved) -> str:
    generation = "pi05_" if resolved.size.pi05 else "pi0_"
    fitting = [name for name in DATA_CONFIGS if name.startswith(generation)]
    return f"set {KEY}.config_name to that of the env's robot: {', '.join(fitting)}"
