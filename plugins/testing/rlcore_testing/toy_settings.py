"""Settings and facts of the toy env and the toy model. Light: numpy level only."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from rlcore_weights.headers import check_fit, read_headers

from rlcore.config.schema import EnvConfig, ModelConfig, When, key
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import (
    ActionChannel,
    Activations,
    CameraSpec,
    EnvSpec,
    PolicySpec,
    ProtocolSpec,
    StateChannel,
)

GOALS = {
    "reach-left": (-0.7, 0.0),
    "reach-right": (0.7, 0.0),
    "reach-up": (0.0, 0.7),
    "reach-down": (0.0, -0.7),
}
IMAGE_SIZE = 16
LARGEST_SIDE = 64
"""Lines and columns of a larger image that the policy reads, evenly spread."""
WEIGHTS = "model.safetensors"
CRITIC = ("value.weight", "value.bias")
"""Weights that a policy of supervised training lacks; another start of training draws them."""


HASTE = ProtocolSpec(
    env="toy",
    groups={
        "IND": {"as trained": {}},
        "Hurry": {"8 steps": {"max_episode_steps": 8}, "4 steps": {"max_episode_steps": 4}},
        "Sides": {"left": {"tasks": ["reach-left"]}, "right": {"tasks": ["reach-right"]}},
    },
    averages={"Average of OOD": ("Hurry", "Sides")},
)
"""Protocol that measures success under time limits shorter than in training."""


@dataclass
class ToyEnvConfig(EnvConfig):
    """A point in a square that should reach the side its sentence names."""

    fail_at: int | None = key(
        "fail inside the simulator at this env step, to test faults", minimum=1
    )
    fail_how: str = key(
        "raise an error, kill the process, or hang",
        "raise",
        choices=("raise", "die", "hang"),
        when=When("fail_at", unless=(None,)),
    )


@dataclass
class ToyModelConfig(ModelConfig):
    """A Gaussian policy over a small image, if the env has a camera, the state and the toy env's
    sentences. Takes states as they are, so their entries should be of order one."""

    precision: str = key("parameters and compute", "fp32", choices=("fp32",))
    hidden: int = key("width of the hidden layers", 64, minimum=1, magnitude_limit=65_536)
    init_std: float = key("initial standard deviation of the actions", 0.3, exclusive_minimum=0)
    value_type: str = key(
        "one value per decision or per executed action (algorithm.reward_type=action_level)",
        "chunk_level",
        choices=("chunk_level", "action_level"),
    )


def env_spec(config: ToyEnvConfig) -> EnvSpec:
    """Return the spec of the toy env.

    Raises:
        ConfigError: an unknown task in `config.tasks`.
    """
    tasks = tuple(GOALS if config.tasks is None else config.tasks)
    for task in tasks:
        if task not in GOALS:
            raise ConfigError(f"toy has no task {task!r}{choices_message(task, GOALS)}")
    return EnvSpec(
        name="toy",
        tasks=tasks,
        instructions=tuple(task.replace("-", " the ") + " side" for task in tasks),
        train_trials=range(0, 1000),
        heldout_trials=range(1000, 2000),
        validation_trials=range(2000, 3000),
        cameras=(CameraSpec("top", IMAGE_SIZE, IMAGE_SIZE),),
        states=(StateChannel("position", 2),),
        actions=(ActionChannel("ee_delta_position", 2, -1.0, 1.0),),
        max_episode_steps=config.max_episode_steps,
        task_groups={
            "horizontal": tuple(t for t in tasks if t in ("reach-left", "reach-right")),
            "vertical": tuple(t for t in tasks if t in ("reach-up", "reach-down")),
        },
        has_expert=True,
        suspends=True,
    )


def policy_spec(config: ToyModelConfig, env: EnvSpec) -> PolicySpec:
    """Return the spec of the toy policy.

    Raises:
        CheckpointError: `config.model_path` holds no toy policy of these sizes.
    """
    shapes = parameter_shapes(config, env)
    if config.model_path is not None:
        file = Path(config.model_path) / WEIGHTS
        hint = "check the keys of actor.model"
        check_fit(file, read_headers(file), shapes, hint=hint, drawn=CRITIC)
    parameters = sum(prod(shape) for shape in shapes.values())
    return PolicySpec(
        name="toy",
        num_images=min(1, len(env.cameras)),
        state_dim=env.state_dim,
        action_dim=env.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=config.num_action_chunks,
        value_dim=_values(config),
        sft_objective="gaussian_likelihood",
        parameters=parameters,
        trainable_parameters=parameters,
        activations=_activations(config, env),
        sample_bytes=_stored(config, env),
        has_blocks=True,
        exploration_key="init_std",
    )


def _activations(config: ToyModelConfig, env: EnvSpec) -> Activations:
    """fp32: what the layers read, the critic's apart, and a few numbers an action entry.
    Nothing is recomputed."""
    outputs = config.num_action_chunks * env.action_dim
    kept = 4 * (input_size(env) + 3 * config.hidden + 4 * outputs)
    return Activations(kept, kept, 4 * (2 * input_size(env) + config.hidden))


def _stored(config: ToyModelConfig, env: EnvSpec) -> int:
    """Return the bytes of a stored decision: uint8 pixels, the other inputs, and actions."""
    numbers = env.state_dim + 3 + config.num_action_chunks * env.action_dim
    return input_size(env) - env.state_dim - len(GOALS) + 4 * numbers


def input_size(env: EnvSpec) -> int:
    """Return the policy's input size: pixels of the first camera, state, one-hot task."""
    pixels = sum(
        min(camera.height, LARGEST_SIDE) * min(camera.width, LARGEST_SIDE) * 3
        for camera in env.cameras[:1]
    )
    return pixels + env.state_dim + len(GOALS)


def parameter_shapes(config: ToyModelConfig, env: EnvSpec) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the toy policy's weights, by name."""
    inputs = input_size(env)
    hidden = config.hidden
    values = _values(config)
    outputs = config.num_action_chunks * env.action_dim
    critic = dict(zip(CRITIC, [(values, hidden + 1), (values,)], strict=True))  # + elapsed fraction
    return {
        "body.0.weight": (hidden, inputs),
        "body.0.bias": (hidden,),
        "body.2.weight": (hidden, hidden),
        "body.2.bias": (hidden,),
        "mean.weight": (outputs, hidden),
        "mean.bias": (outputs,),
        "log_std": (outputs,),
        **(critic if values else {}),
    }


def _values(config: ToyModelConfig) -> int:
    per_action = config.value_type == "action_level"
    return (config.num_action_chunks if per_action else 1) if config.add_value_head else 0
