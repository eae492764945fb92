"""A ManiSkill env under our settings: build it, choose its cameras, skip its observations.

With image observations ManiSkill renders in every `step`. Here `step` renders nothing: frames are
captured on demand, in the same way and from the same cameras.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping
from functools import cache
from typing import Protocol, runtime_checkable

import torch
from mani_skill.agents.controllers.base_controller import CombinedController
from mani_skill.agents.controllers.pd_ee_pose import PDEEPosController
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.utils.registration import REGISTERED_ENVS
from mani_skill.utils.structs import Articulation

from rlcore.contracts.errors import ConfigError, choosing
from rlcore_env_maniskill.assets import require_robot
from rlcore_env_maniskill.backend import rendering_device
from rlcore_env_maniskill.fast_render import draw_contact_shapes
from rlcore_env_maniskill.hub_files import assets_folder
from rlcore_env_maniskill.physx_library import enable_gpu
from rlcore_env_maniskill.registered import PLAYED, require_registered
from rlcore_env_maniskill.robots import Robot
from rlcore_env_maniskill.settings import THIRD_PERSON, ManiSkillConfig
from rlcore_env_maniskill.spec import control_of, env_spec, own_robot, robot_name
from rlcore_env_maniskill.tasks import PUT_ON_PLATE, task_of
from rlcore_env_maniskill.unseen import leave_out_unseen


@runtime_checkable
class Speaking(Protocol):
    """A task with sentences of its own, which not all of ManiSkill's have."""

    def get_language_instruction(self) -> str | list[str]:
        """One for all rows, or one for each."""


def make_raw(config: ManiSkillConfig, task: str, *, num_envs: int = 1) -> BaseEnv:
    """The task as ManiSkill builds it, without wrappers.

    Args:
        config: settings.
        task: ManiSkill's id.
        num_envs: scenes; more than one needs `sim_backend: gpu`.

    Raises:
        ConfigError: an id that is not registered, or settings that the task does not have.
        AssetError: no rendering device, no PhysX for GPUs, or missing files of the task.
    """
    if (own := task_of(task).module) is not None:
        importlib.import_module(own)
    require_registered(task, config.register)
    _spare_the_collector()
    if config.sim_backend == "gpu":
        enable_gpu()
    if task_of(task) is not PUT_ON_PLATE:  # which looks into its own folder
        require_robot(robot_name(config, task))
    registered = REGISTERED_ENVS[task]
    settings = registered.default_kwargs | {
        "num_envs": num_envs,
        "obs_mode": config.obs_mode,
        "reward_mode": config.reward,
        "control_mode": control_of(config, task),
        "sim_backend": f"physx_{'cuda' if config.sim_backend == 'gpu' else 'cpu'}",
        "render_backend": rendering_device(),
    }
    if config.obs_mode == "rgb":
        settings["sensor_configs"] = {"width": config.frame_width, "height": config.image_size}
    if config.robot not in (None, own_robot(config, task)):  # a task passes its own itself
        settings["robot_uids"] = config.robot
    if task_of(task) is PUT_ON_PLATE:
        folder = None if config.stand_ins else str(assets_folder(config.assets_path))
        settings |= {"assets_path": folder, "obj_set": config.object_set}
        settings["hold"] = config.hold
    env = registered.cls(**settings)
    _check(env, config, task)
    if config.obs_mode == "rgb":
        env.get_obs = lambda info=None, unflattened=False: {}
    return env


@cache
def _spare_the_collector() -> None:
    """ManiSkill collects garbage whenever it builds a scene, and most of that time (0.17 s of
    0.2 s) went into looking through what the libraries have loaded. So once per process, before the
    first scene, everything alive is hidden from the collector; scenes are still collected.
    """
    gc.collect()
    gc.freeze()


def _check(env: BaseEnv, config: ManiSkillConfig, task: str) -> None:
    """Raise unless the env matches the spec."""
    if config.obs_mode == "none":
        return
    spec = env_spec(config)
    space = env.single_action_space
    if "success" not in env.get_info():
        raise ConfigError(f"task {task!r} does not report success", hint=PLAYED)
    if space.shape != (spec.action_dim,):
        raise ConfigError(
            f"task {task!r} takes actions {space}, not the {spec.action_dim} numbers of robot "
            f"{robot_name(config, task)!r}",
            hint="set robot to the task's robot",
        )
    if config.obs_mode == "state":
        size = env.single_observation_space.shape
        if size != (spec.state_dim,):
            raise ConfigError(
                f"the state of task {task!r} has shape {size}, expected ({spec.state_dim},)",
                hint=f"set state_size={size[0]}",
            )


# -- frames -----------------------------------------------------------------------------------


def prepare_frames(env: BaseEnv, config: ManiSkillConfig) -> dict[str, str]:
    """Keep only the chosen cameras of a scene and what they see of its scenery, and apply
    `show_goal` and `fast_render`.

    Needed again after each reset that rebuilds the scene; otherwise it changes nothing.

    Returns:
        The cameras by our name, `{name: name in ManiSkill}`.

    Raises:
        ConfigError: the task has no such camera.
    """
    if config.obs_mode != "rgb":
        return {}
    names = {name: _sensor(env, name) for name in config.cameras}
    for sensor in set(env.scene.sensors) - set(names.values()):
        del env.scene.sensors[sensor]  # the dict is the env's too
    if config.show_goal:
        for thing in env._hidden_objects:
            thing.show_visual()
        env._hidden_objects.clear()
    if config.fast_render:
        draw_contact_shapes(env)
    if config.sim_backend == "cpu" and config.rebuild_scene:  # else cameras might be moved later
        leave_out_unseen(env)
    return names


def _sensor(env: BaseEnv, name: str) -> str:
    sensors = env.scene.sensors
    standing = [uid for uid in sensors if uid not in env._agent_sensor_configs]
    if name == THIRD_PERSON and standing:
        return standing[0]
    if name not in sensors:
        raise ConfigError(f"this task has no camera {name!r}{choosing(name, sensors)}")
    return name


def capture(env: BaseEnv, names: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """Current frames uint8 `{name: [B, H, W, 3]}`, on the device of the simulation."""
    data = env._get_obs_sensor_data()
    return {name: data[sensor]["rgb"] for name, sensor in names.items()}


# -- the robot's own state --------------------------------------------------------------------


def robot_state(env: BaseEnv, config: ManiSkillConfig, robot: Robot) -> torch.Tensor:
    """What a policy reads of the robot, float32 `[B, S]`: with `robot_state: joints`, its qpos.
    Otherwise position and rotation of the tool, and the gripper's opening if there is one.

    A quaternion and its negative are the same rotation. We take the one whose largest entry is
    positive: around the poses in which robots work, that choice does not jump.
    """
    if config.robot_state == "joints":
        return env.agent.robot.get_qpos().float()
    arm = env.agent.controller
    if isinstance(arm, CombinedController):
        arm = arm.controllers["arm"]
    if isinstance(arm, PDEEPosController):
        tool = arm.ee_pose_at_base
    else:
        tool = env.agent.robot.pose.inv() * env.agent.tcp_pose
    greatest = tool.q.gather(-1, tool.q.abs().argmax(-1, keepdim=True))
    known = [tool.p, tool.q * greatest.sign()]
    if robot.fingers:
        known.append(_opening(env.agent.robot, robot))
    return torch.cat(known, dim=-1).float()


def _opening(body: Articulation, robot: Robot) -> torch.Tensor:
    """0 for closed to 1 for open, `[B, 1]`."""
    names = list(body.active_joints_map)
    fingers = [names.index(name) for name in robot.fingers]
    low, high = body.get_qlimits()[:, fingers].unbind(-1)
    turned = ((body.get_qpos()[..., fingers] - low) / (high - low)).mean(-1, keepdim=True)
    return 1.0 - turned if robot.fingers_close else turned


def sentences(env: BaseEnv, task: str) -> list[str]:
    """The instruction of each row: the env's own where it has one."""
    thing: object = env
    own = thing.get_language_instruction() if isinstance(thing, Speaking) else None
    said = own or task_of(task).sentence
    return [said] * env.num_envs if isinstance(said, str) else list(said)
