"""Import settings of ManiSkill's put-on-plate tasks."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import UNSET, Convert, ImportRule, RLinfFile, constant, table
from rlcore_rlinf.rules.envs import trials_per_task

BRIDGE = "widowx_bridge"
POLICY_SETUP = "actor.model.policy_setup"
IN_THE_TASK = "the task determines it"
UNITS_SAY = "env.*.action_units and env.*.gripper replace it"
AS_RECORDED = "frames as they are recorded"


def _frames(mode: Any, _: RLinfFile) -> Any:
    return "rgb" if str(mode).startswith("rgb") else mode


def _control(mode: Any, _: RLinfFile) -> Any:
    return UNSET if mode in (None, "None") else mode


def _reward(mode: Any, file: RLinfFile) -> str:
    if mode == "default":
        return "grasp"
    # as a difference it equals sparse if the first success ends the episode
    continues = file.get("env.train.ignore_terminations") and file.get("env.train.use_rel_reward")
    if mode == "only_success" and not continues:
        return "sparse"
    raise ValueError("reward: sparse, dense or grasp")


def _on_bridge(value: str) -> Convert:
    """Return a conversion to `value` if the policy's robot is :data:`BRIDGE`, the default.

    The robot determines the units of the policy's actions.
    """

    def convert(_: Any, file: RLinfFile) -> Any:
        setup = file.get(POLICY_SETUP)
        return value if setup is None or setup == BRIDGE else UNSET

    return convert


def _pi(size: int) -> Convert:
    """Return a conversion: π0 and π0.5 get frames of this size, token policies square ones.

    Args:
        size: height or width of the frames that the simulator records, in pixels.
    """

    def convert(_: Any, file: RLinfFile) -> Any:
        return size if file.get("actor.model.openpi.config_name") else UNSET

    return convert


RULES = table(
    ImportRule("env.*.init_params.id", "env.*.tasks", "a list of tasks", lambda task, _: [task]),
    ImportRule("env.*.init_params.obs_mode", "env.*.obs_mode", "segmentation is implied", _frames),
    ImportRule("env.*.init_params.control_mode", "env.*.control_mode", "the task's own", _control),
    ImportRule("env.*.init_params.sim_backend", "env.*.sim_backend", "cpu or gpu"),
    ImportRule("env.*.init_params.obj_set", "env.*.object_set", "train, test or all"),
    ImportRule(
        "env.*.init_params.max_episode_steps",
        "env.*.max_episode_steps",
        "RLinf's time limit of an episode",
    ),
    ImportRule("env.*.reward_mode", "env.*.reward", "reward of a step", _reward),
    constant("env.*.reward", "as RLinf's env returns it", "grasp"),
    constant("env.*.robot_state", "as RLinf's env returns it: qpos", "joints"),
    ImportRule(
        "",
        "env.*.action_units",
        "metres and radians, as RLinf's checkpoints output them",
        _on_bridge("metric"),
    ),
    ImportRule(
        "",
        "env.*.gripper",
        "above 0.5 opens, as RLinf's checkpoints output it",
        _on_bridge("binary"),
    ),
    ImportRule("", "env.*.image_size", AS_RECORDED, _pi(480)),
    ImportRule("", "env.*.image_width", AS_RECORDED, _pi(640)),
    trials_per_task(),
    harmless={
        "env.*.init_params.sim_config.sim_freq": (IN_THE_TASK, (500,)),
        "env.*.init_params.sim_config.control_freq": (IN_THE_TASK, (5,)),
        "env.*.init_params.sensor_configs.shader_pack": ("one shader", ("default",)),
        "env.*.init_params.use_multiple_plates": ("the task's variants have more plates", (False,)),
        "env.*.use_rel_reward": ("reward: grasp is the change since the previous step", (True,)),
        "env.*.use_step_penalty": ("there is no penalty", (False,)),
        "env.*.wrap_obs_mode": ("the policy's spec determines what it reads", ("default",)),
    },
    dropped={
        "env.*.init_params.render_mode": "videos show what the policy observes",
        "env.*.init_params.num_envs": "env.*.total_num_envs is used",
        "env.*.policy_setup": UNITS_SAY,
        POLICY_SETUP: UNITS_SAY,
    },
)
