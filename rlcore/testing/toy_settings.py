"""Settings and facts of the toy env and the toy model. Light: numpy level only."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import EnvConfig, ModelConfig, key
from rlcore.errors import ConfigError, did_you_mean
from rlcore.specs import ActionChannel, CameraSpec, EnvSpec, PolicySpec, StateChannel

GOALS = {
    "reach-left": (-0.7, 0.0),
    "reach-right": (0.7, 0.0),
    "reach-up": (0.0, 0.7),
    "reach-down": (0.0, -0.7),
}
IMAGE_SIZE = 16


@dataclass
class ToyEnvConfig(EnvConfig):
    """A point in a square that should reach the side its sentence names."""

    fail_at: int | None = key("fail inside the simulator at this env step, to test faults", least=1)
    fail_how: str = key(
        "raise an error, kill the process, or hang", "raise", choices=("raise", "die", "hang")
    )


@dataclass
class ToyModelConfig(ModelConfig):
    """A Gaussian policy over a small image, the position and the sentence."""

    hidden: int = key("width of the hidden layers", 64, least=1)
    init_std: float = key("initial standard deviation of the actions", 0.3, above=0)
    value_type: str = key(
        "one value per decision or per executed action (algorithm.reward_type=action_level)",
        "chunk_level",
        choices=("chunk_level", "action_level"),
    )


def env_spec(config: ToyEnvConfig) -> EnvSpec:
    """Facts of the toy env.

    Raises:
        ConfigError: an unknown task in `config.tasks`.
    """
    tasks = tuple(GOALS if config.tasks is None else config.tasks)
    for task in tasks:
        if task not in GOALS:
            raise ConfigError(
                f"toy has no task {task!r}: choose from {', '.join(GOALS)}."
                f"{did_you_mean(task, GOALS)}"
            )
    return EnvSpec(
        name="toy",
        tasks=tasks,
        descriptions=tuple(task.replace("-", " the ") + " side" for task in tasks),
        train_trials=range(0, 1000),
        heldout_trials=range(1000, 2000),
        cameras=(CameraSpec("top", IMAGE_SIZE, IMAGE_SIZE),),
        states=(StateChannel("position", 2),),
        actions=(ActionChannel("ee_delta_position", 2, -1.0, 1.0),),
        max_episode_steps=config.max_episode_steps,
        task_groups={
            "horizontal": tuple(t for t in tasks if t in ("reach-left", "reach-right")),
            "vertical": tuple(t for t in tasks if t in ("reach-up", "reach-down")),
        },
        has_expert=True,
    )


def policy_spec(config: ToyModelConfig, env: EnvSpec) -> PolicySpec:
    """Facts of the toy policy."""
    inputs = IMAGE_SIZE * IMAGE_SIZE * 3 + env.state_dim + len(GOALS)
    outputs = config.num_action_chunks * env.action_dim
    hidden = config.hidden
    body = inputs * hidden + hidden + hidden * hidden + hidden
    heads = hidden * outputs + 2 * outputs
    per_action = config.value_type == "action_level"
    values = (config.num_action_chunks if per_action else 1) if config.add_value_head else 0
    critic = (hidden + 2) * values  # reads the elapsed fraction too
    return PolicySpec(
        name="toy",
        num_images=1,
        state_dim=env.state_dim,
        action_dim=env.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=config.num_action_chunks,
        value_dim=values,
        sft="gaussian_likelihood",
        parameters=body + heads + critic,
        trainable_parameters=body + heads + critic,
    )
