"""Check the settings of `actor.model` against each other and against the env. No torch."""

from __future__ import annotations

from rlcore_flow.checks import check_chunk, check_env, check_exploration, check_training, require

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
    check_chunk(KEY, resolved.size.action_horizon, config)
    _check_sizes(resolved)
    check_exploration(KEY, config.openpi)
    check_training(KEY, config.openpi, config)
    check_env(resolved.num_images, resolved.action_dim, env_spec)
    _check_robot(resolved, env_spec)


def _check_sizes(resolved: Resolved) -> None:
    require(
        resolved.num_images <= IMAGE_SLOTS,
        f"actor.model.num_images_in_input must be at most {IMAGE_SLOTS}, got {resolved.num_images}",
    )
    require(
        not resolved.discrete_state or resolved.data.pi05,
        f"{KEY}.discrete_state_input is for π0.5; config_name {resolved.data.name!r} is π0",
        f"leave it out, or set {KEY}.config_name={same_robot(resolved.data, pi05=True)}",
    )


def _check_robot(resolved: Resolved, env_spec: EnvSpec) -> None:
    data = resolved.data
    size = resolved.size
    env = env_spec.name
    require(
        env_spec.action_dim <= size.action_dim,
        f"actions of env {env!r} have {env_spec.action_dim} entries, the network has room for "
        f"{size.action_dim}",
        _wider(resolved, env_spec.action_dim),
    )
    require(
        not resolved.uses_state or env_spec.state_dim <= size.action_dim,
        f"the state of env {env!r} has {env_spec.state_dim} entries, the network has room for "
        f"{size.action_dim}",
        f"{_wider(resolved, env_spec.state_dim)}; or use a π0.5 that reads no state: "
        f"{KEY}.config_name={same_robot(data, pi05=True)} {KEY}.discrete_state_input=false",
    )
    least = data.entries or len(data.delta_mask)
    require(
        min(env_spec.action_dim, env_spec.state_dim) >= least,
        f"config_name {data.name!r} needs a state and actions of at least {least} entries; env "
        f"{env!r} has {env_spec.state_dim} and {env_spec.action_dim}",
        _other_robot(resolved),
    )
    require(
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
