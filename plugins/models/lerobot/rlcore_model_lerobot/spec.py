"""Check a policy of LeRobot against the env, and return its facts. No torch.

Cameras, state and actions of the env must be the features of the policy: equal names or an explicit
order for pictures, equal numbers of entries for state and actions.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from rlcore_weights.headers import count, read_headers

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_lerobot.described import IMAGES, WEIGHTS, Described, described
from rlcore_model_lerobot.settings import PYTHON, LeRobotModelConfig

TEXT = 512
"""Bytes of an instruction (UTF-8) that are stored with a decision."""
_DETERMINISTIC = ("act",)  # LeRobot draws nothing to decide


def policy_spec(config: LeRobotModelConfig, env: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: the policy does not fit the env; one error lists all faults.
        CheckpointError: `model_path` is no folder of LeRobot 0.4 or later.
    """
    if config.is_lora or config.lora_path:
        raise ConfigError(
            "actor.model.is_lora and lora_path are not for model=lerobot, which trains what "
            "LeRobot leaves trainable",
            hint="actor.model.is_lora=false actor.model.lora_path=null",
        )
    policy = described(config, env)
    cameras = cameras_of(config, env, policy)
    faults = [*_faults(policy, env, cameras), *_instruction_faults(env)]
    if config.num_images_in_input not in (None, len(policy.images)):
        faults.append(
            f"actor.model.num_images_in_input must be {len(policy.images)} or null, the pictures "
            f"that it takes, got {config.num_images_in_input}"
        )
    if policy.observations > 1 and not config.lerobot.repeat_observation:
        faults.append(
            f"it sees {policy.observations} steps (n_obs_steps), and a decision has one; "
            "actor.model.lerobot.repeat_observation=true repeats it, to evaluate"
        )
    if faults:
        raise ConfigError(
            f"LeRobot's policy {policy.type} does not fit {env.name}:\n  " + "\n  ".join(faults),
            hint="rlcore train --help env lists the keys of the env; choose another env or policy",
        )
    size = 0
    if config.model_path is not None:
        headers = read_headers(Path(config.model_path) / WEIGHTS)
        size = count({name: header.shape for name, header in headers.items()})
    sizes = {camera.name: (camera.height, camera.width) for camera in env.cameras}
    pixels = sum(3 * prod(sizes[name]) for name in cameras.values())
    untrainable = ""
    if policy.observations > 1:
        untrainable = (
            f"{policy.type} was trained on several observations "
            f"(n_obs_steps={policy.observations}), and a stored decision has one"
        )
    if config.interpreter() is not None:
        untrainable = (
            f"{PYTHON}={config.interpreter()} is an interpreter apart, in which the policy acts "
            f"and does not learn; to train it, install LeRobot where rlcore is, and leave {PYTHON} "
            "null"
        )
    return PolicySpec(
        name=f"lerobot's {policy.type}",
        num_images=len(policy.images),
        state_dim=policy.state,
        action_dim=policy.action,
        num_action_chunks=config.num_action_chunks,
        action_horizon=policy.horizon,
        sft_objective=None if untrainable else f"{policy.type} of LeRobot",
        parameters=size,  # buffers too, which its file does not tell apart
        trainable_parameters=size,
        sample_bytes=pixels + 2 * TEXT + 4 * (env.state_dim + 1),
        starts_from_noise=policy.type not in _DETERMINISTIC,
        has_logprobs=False,
        evaluation_only=untrainable,
    )


def cameras_of(config: LeRobotModelConfig, env: EnvSpec, policy: Described) -> dict[str, str]:
    """Return the camera of the env for each picture that the policy takes, `{feature: camera}`.

    It is empty if some picture has none.

    Raises:
        ConfigError: `actor.model.lerobot.cameras` names other cameras, or too few or too many.
    """
    names = [camera.name for camera in env.cameras]
    features = list(policy.images)
    chosen = config.lerobot.cameras
    if chosen is not None and config.model_path is not None:
        if len(chosen) != len(features) or not {*chosen} <= {*names}:
            raise ConfigError(
                f"actor.model.lerobot.cameras must name {len(features)} of the cameras of "
                f"{env.name} ({', '.join(names)}), for {', '.join(features)}, got "
                f"{', '.join(chosen) or 'none'}",
                hint=f"'actor.model.lerobot.cameras=[{','.join(names[: len(features)])}]'",
            )
        return dict(zip(features, chosen, strict=True))
    if len(features) == len(names) == 1:
        return {features[0]: names[0]}
    own = {feature: feature.removeprefix(IMAGES) for feature in features}
    return own if {*own.values()} <= {*names} else {}


def _faults(policy: Described, env: EnvSpec, cameras: dict[str, str]) -> list[str]:
    """Return what of the env does not fit the policy, a sentence each."""
    faults = []
    names = ", ".join(camera.name for camera in env.cameras)
    if policy.images and not cameras:
        faults.append(
            f"pictures: it takes {', '.join(policy.images)}, the env has {names or 'no camera'}; "
            "actor.model.lerobot.cameras=[...] says which is which"
        )
    sizes = {camera.name: (3, camera.height, camera.width) for camera in env.cameras}
    for feature, camera in cameras.items():
        shape = tuple(policy.images[feature])
        if not policy.resizes and sizes[camera] != shape:
            faults.append(
                f"{feature}: it is {shape[1]} x {shape[2]} pixels, the env's camera {camera} has "
                f"{sizes[camera][1]} x {sizes[camera][2]}"
            )
    if policy.state not in (0, env.state_dim):
        faults.append(
            f"observation.state: it has {policy.state} entries, the env's state {env.state_dim}"
        )
    if policy.action != env.action_dim:
        faults.append(f"action: it has {policy.action} entries, the env's {env.action_dim}")
    faults += [f"{name}: the env has no such input" for name in policy.other]
    return faults


def _instruction_faults(env: EnvSpec) -> list[str]:
    """Return instructions that are too long to be stored, a sentence each."""
    return [
        f"task: {text[:40]!r}... has {len(text.encode())} bytes, at most {TEXT} are stored"
        for text in env.all_instructions
        if len(text.encode()) > TEXT
    ]
