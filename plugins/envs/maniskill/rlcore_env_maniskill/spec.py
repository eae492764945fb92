"""Settings -> EnvSpec, and the checks of the settings. Light: imports no simulator."""

from __future__ import annotations

from rlcore.errors import ConfigError, did_you_mean
from rlcore.specs import CameraSpec, EnvSpec, StateChannel
from rlcore_env_maniskill.experts import EXPERT_TASKS
from rlcore_env_maniskill.robots import ROBOTS, Robot, action_channels
from rlcore_env_maniskill.sentences import all_sentences
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.tasks import (
    ASSETS_ROBOT,
    MAIN,
    PUT_ON_PLATE,
    SUITES,
    TABLETOP,
    TASKS,
    task_of,
)

# Trial numbers key the generator of a start, so the ranges may be as long as anyone needs.
TRAIN_TRIALS = range(0, 10_000)
HELDOUT_TRIALS = range(10_000, 20_000)
# What the experts command.
EXPERT_CONTROL = "pd_ee_delta_pose"

PROPRIOCEPTION = (
    StateChannel("ee_position", 3),  # metres, from the robot's base
    StateChannel("ee_rotation", 4),  # quaternion wxyz, its greatest entry positive
    StateChannel("gripper_opening", 1),  # 0 closed, 1 open
)


def env_spec(config: ManiSkillConfig) -> EnvSpec:
    """What ManiSkill offers under `config`.

    Raises:
        ConfigError: an unknown task, robot or camera, or settings that exclude each other.
    """
    tasks = _tasks(config)
    robot = ROBOTS[robot_name(config, tasks[0])]
    control_mode = control_of(config, tasks[0])
    _check_reward(config, tasks)
    rgb = config.obs_mode == "rgb"
    return EnvSpec(
        name="maniskill",
        tasks=tasks,
        descriptions=tuple(task_of(task).sentence for task in tasks),
        sentences=_sentences(config, tasks),
        train_trials=TRAIN_TRIALS,
        heldout_trials=HELDOUT_TRIALS,
        cameras=_cameras(config, robot) if rgb else (),
        states=PROPRIOCEPTION if rgb else (StateChannel("state", _state_size(config, tasks)),),
        actions=action_channels(
            robot,
            control_mode,
            metric=config.action_units == "metric",
            binary=config.gripper == "binary",
        ),
        max_episode_steps=config.max_episode_steps,
        start_exactness="bitwise" if config.sim_backend == "cpu" else "stored_state",
        task_groups=_groups(tasks),
        has_expert=config.sim_backend == "cpu"
        and control_mode == EXPERT_CONTROL
        and EXPERT_TASKS.issuperset(tasks),
        render_settings={
            "obs_mode": config.obs_mode,
            "cameras": ",".join(config.cameras),
            "image_size": config.image_size,
            "show_goal": config.show_goal,
            **_assets(config, tasks),
        },
        renders_final=config.render_final,
    )


def robot_name(config: ManiSkillConfig, task: str) -> str:
    """The robot that is asked for, or the one that the task or its assets come with.

    Raises:
        ConfigError: an unknown robot.
    """
    if config.robot is None:
        from_assets = task_of(task) is PUT_ON_PLATE and config.assets_path is not None
        return ASSETS_ROBOT if from_assets else task_of(task).robot
    if config.robot not in ROBOTS:
        raise ConfigError(
            f"robot must be one of {', '.join(ROBOTS)}, got {config.robot!r}."
            f"{did_you_mean(config.robot, ROBOTS)}"
        )
    return config.robot


def control_of(config: ManiSkillConfig, task: str) -> str:
    """The control mode that is asked for, or the robot's own."""
    return config.control_mode or ROBOTS[robot_name(config, task)].control_mode


def _tasks(config: ManiSkillConfig) -> tuple[str, ...]:
    """The asked tasks; of those that are not in our table we know nothing before a simulator has
    loaded what registers them."""
    if config.tasks is None:
        return tuple(TABLETOP)
    if not config.tasks or len(set(config.tasks)) != len(config.tasks):
        raise ConfigError(f"tasks must name at least one task, each once, got {config.tasks}")
    for task in config.tasks:
        if task not in TASKS and not config.register:
            raise ConfigError(
                f"task {task!r} is not one that rlcore knows of ManiSkill."
                f"{did_you_mean(task, TASKS)}",
                hint="for another registered task name the module that registers it, e.g. "
                "env.train.register=[mani_skill.envs]",
            )
    if config.sim_backend == "gpu" and len(config.tasks) > 1:
        raise ConfigError(
            f"sim_backend gpu simulates one task in all rows, got {', '.join(config.tasks)}",
            hint="name one task, or set sim_backend=cpu",
        )
    return tuple(config.tasks)


def _cameras(config: ManiSkillConfig, robot: Robot) -> tuple[CameraSpec, ...]:
    names = config.cameras
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"cameras must name at least one camera, each once, got {names}")
    if "hand_camera" in names and "hand_camera" not in robot.cameras:
        carriers = [name for name, each in ROBOTS.items() if "hand_camera" in each.cameras]
        raise ConfigError(
            "this robot carries no hand_camera", hint=f"set robot={' or robot='.join(carriers)}"
        )
    return tuple(CameraSpec(name, config.image_size, config.image_size) for name in names)


def _check_reward(config: ManiSkillConfig, tasks: tuple[str, ...]) -> None:
    for task in tasks:
        if config.reward not in task_of(task).rewards:
            raise ConfigError(
                f"task {task!r} has no reward {config.reward!r}, it has "
                f"{', '.join(task_of(task).rewards)}"
            )


def _sentences(config: ManiSkillConfig, tasks: tuple[str, ...]) -> tuple[str, ...]:
    """Put-on-plate makes one an episode. Those of all its variants are named, whichever is played:
    a policy that is trained on one is evaluated on the others."""
    if all(task_of(task) is not PUT_ON_PLATE for task in tasks):
        return ()
    others = [task_of(task).sentence for task in tasks if task_of(task) is not PUT_ON_PLATE]
    return (*others, *all_sentences(config.assets_path))


def _assets(config: ManiSkillConfig, tasks: tuple[str, ...]) -> dict[str, str]:
    """What put-on-plate scenes are made of; figures on stand-ins are no benchmark figures."""
    if all(task_of(task) is not PUT_ON_PLATE for task in tasks):
        return {}
    return {"assets": config.assets_path or "stand-in"}


def _state_size(config: ManiSkillConfig, tasks: tuple[str, ...]) -> int:
    if config.state_size is not None:
        return config.state_size
    sizes = {task: task_of(task).state_size for task in tasks}
    unknown = [task for task, size in sizes.items() if size is None]
    if unknown:
        raise ConfigError(
            f"rlcore does not know how many entries the state of {unknown[0]!r} has",
            hint="set state_size; a simulator that finds another number says which it is",
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{task}: {size}" for task, size in sizes.items())
        raise ConfigError(
            f"obs_mode state needs tasks whose states have the same size, got {listed}",
            hint="name one task, or set obs_mode=rgb",
        )
    (size,) = set(sizes.values())
    assert size is not None
    return size


def _groups(tasks: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The training setting and the suites of its variants, restricted to `tasks`."""
    named = {"ind": (MAIN,), **SUITES}
    groups = {
        name: tuple(task for task in members if task in tasks) for name, members in named.items()
    }
    return {name: members for name, members in groups.items() if members}
