"""Check the settings and derive the EnvSpec from them. Imports no simulator."""

from __future__ import annotations

from rlcore_mujoco.view import Camera, View
from rlcore_simulation.settings import each_once, groups_of

from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore_env_metaworld.cameras import CAMERAS, WRIST
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.tasks import BENCHMARKS, DIFFICULTY, SENTENCES

# A trial number seeds the generator of a start, so these ranges may be arbitrarily long.
TRAIN_TRIALS = range(0, 10_000)
HELDOUT_TRIALS = range(10_000, 20_000)
VALIDATION_TRIALS = range(20_000, 30_000)


def env_spec(config: MetaWorldConfig) -> EnvSpec:
    """Return the spec of MetaWorld for `config`.

    Raises:
        ConfigError: an unknown task, benchmark, camera or reward, or a number out of range.
    """
    tasks = _tasks(config)
    return EnvSpec(
        name="metaworld",
        tasks=tasks,
        instructions=tuple(SENTENCES[task] for task in tasks),
        train_trials=TRAIN_TRIALS,
        heldout_trials=HELDOUT_TRIALS,
        validation_trials=VALIDATION_TRIALS,
        cameras=tuple(
            CameraSpec(name, config.image_size, config.image_size) for name in cameras_of(config)
        ),
        states=(StateChannel("ee_position", 3), StateChannel("gripper_opening", 1)),
        actions=(
            ActionChannel("ee_delta_position", 3, frame="base", convention="1 is 1 cm a step"),
            ActionChannel("gripper", 1, convention="+1 closes, -1 opens"),
        ),
        max_episode_steps=config.max_episode_steps,
        start_exactness="bitwise",
        task_groups=groups_of(tasks, DIFFICULTY),
        has_expert=True,
        dense_reward=config.reward != "sparse",
        render_settings={
            "camera": ", ".join(cameras_of(config)),
            "image_size": config.image_size,
            **view_of(config).quality,
        },
        renders_final=config.render_final,
    )


def _tasks(config: MetaWorldConfig) -> tuple[str, ...]:
    """Return the tasks in `config.tasks`, in that order; None: all tasks of the benchmark."""
    offered = BENCHMARKS[config.benchmark]
    if config.tasks is None:
        return offered
    for task in config.tasks:
        if task not in offered:
            raise ConfigError(
                f"task {task!r} is not in benchmark {config.benchmark!r}"
                f"{choices_message(task, offered)}",
                hint="rlcore train env=metaworld --help env.train.tasks lists them",
            )
    return each_once("task", config.tasks)


def cameras_of(config: MetaWorldConfig) -> list[str]:
    """Return the names of the cameras in the order in which policies take them.

    Raises:
        ConfigError: the camera at the wrist is asked for twice.
    """
    if config.wrist_camera and config.camera == WRIST:
        raise ConfigError(
            f"wrist_camera=true adds {WRIST}, which is the only camera already (camera={WRIST})",
            hint="wrist_camera=false, or another camera",
        )
    return [config.camera, *([WRIST] if config.wrist_camera else [])]


def view_of(config: MetaWorldConfig) -> View:
    """Return the view of the cameras of `config`, with upright frames of `image_size` pixels.

    Frames are rendered without reflections. Only corner, corner2 and corner3 see the reflecting
    walls of the table: their frames differ from MetaWorld's own in up to 4% of the pixels.
    """
    size = config.image_size
    frames = {}
    for name in cameras_of(config):
        mount = CAMERAS[name]
        turned = mount.rotated
        frames[name] = Camera(mount.name, size, size, flip_rows=turned, flip_columns=turned)
    return View(frames, fast=config.fast_render, detail=config.render_detail)
