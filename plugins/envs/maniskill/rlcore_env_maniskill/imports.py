"""Import rules: RLinf's keys for ManiSkill's put-on-plate tasks. Loads no simulator."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

BRIDGE = "widowx_bridge"
POLICY_SETUP = "actor.model.policy_setup"
IN_THE_TASK = "the task fixes it"


def _frames(mode: Any, _: Foreign) -> str:
    return "rgb" if str(mode).startswith("rgb") else mode


def _control(mode: Any, _: Foreign) -> Any:
    return UNSAID if mode in (None, "None") else mode


def _reward(mode: Any, foreign: Foreign) -> str:
    if mode == "default":
        return "grasp"
    # as a difference it equals sparse if the first success ends the episode
    train = "env.train"
    goes_on = foreign.get(f"{train}.ignore_terminations") and foreign.get(f"{train}.use_rel_reward")
    if mode == "only_success" and not goes_on:
        return "sparse"
    raise ValueError("reward: sparse, dense or grasp")


def _setup(setup: Any) -> Any:
    """Return the policy's robot, which determines the units of its actions; default `BRIDGE`."""
    return setup if setup is not None else BRIDGE


def _units(_: Any, foreign: Foreign) -> Any:
    return "metric" if _setup(foreign.get(POLICY_SETUP)) == BRIDGE else UNSAID


def _gripper(_: Any, foreign: Foreign) -> Any:
    return "binary" if _setup(foreign.get(POLICY_SETUP)) == BRIDGE else UNSAID


def _size(height: int) -> Any:
    """Return a rule's conversion: π0 and π0.5 get frames of this size, token policies square ones.

    Args:
        height: height or width of the frames that the simulator records, in pixels.
    """

    def of(_: Any, foreign: Foreign) -> Any:
        return height if foreign.get("actor.model.openpi.config_name") else UNSAID

    return of


def _trials(_: Any, foreign: Foreign) -> int:
    return max(1, foreign.episodes())


RULES = (
    ImportRule("env.*.init_params.id", "env.*.tasks", "a list of tasks", lambda task, _: [task]),
    ImportRule("env.*.init_params.obs_mode", "env.*.obs_mode", "segmentation is implied", _frames),
    ImportRule("env.*.init_params.control_mode", "env.*.control_mode", "the task's own", _control),
    ImportRule("env.*.init_params.sim_backend", "env.*.sim_backend", "cpu or gpu"),
    ImportRule("env.*.init_params.obj_set", "env.*.object_set", "train, test or all"),
    ImportRule("env.*.init_params.sim_config.sim_freq", None, IN_THE_TASK, only=(500,)),
    ImportRule("env.*.init_params.sim_config.control_freq", None, IN_THE_TASK, only=(5,)),
    ImportRule(
        "env.*.init_params.sensor_configs.shader_pack", None, "one shader", only=("default",)
    ),
    ImportRule("env.*.init_params.render_mode", None, "films are of what the policy sees"),
    ImportRule("env.*.init_params.num_envs", None, "env.*.total_num_envs is what counts"),
    ImportRule(
        "env.*.init_params.max_episode_steps",
        "env.*.max_episode_steps",
        "what ends an episode there",
    ),
    ImportRule(
        "env.*.init_params.use_multiple_plates",
        None,
        "the task's variants have more plates",
        only=(False,),
    ),
    ImportRule("env.*.policy_setup", None, "env.*.action_units and env.*.gripper say it"),
    ImportRule(POLICY_SETUP, None, "env.*.action_units and env.*.gripper say it"),
    ImportRule("env.*.reward_mode", "env.*.reward", "what a step is worth", _reward),
    ImportRule(
        "env.*.use_rel_reward",
        None,
        "reward: grasp is the change since the step before",
        only=(True,),
    ),
    ImportRule("env.*.use_step_penalty", None, "there is no penalty", only=(False,)),
    ImportRule(
        "env.*.wrap_obs_mode", None, "the policy's spec says what it reads", only=("default",)
    ),
    ImportRule("", "env.*.reward", "as their env gives it", lambda *_: "grasp"),
    ImportRule("", "env.*.robot_state", "as their env gives it: qpos", lambda *_: "joints"),
    ImportRule(
        "", "env.*.action_units", "metres and radians, as their checkpoints give them", _units
    ),
    ImportRule("", "env.*.gripper", "above 0.5 opens, as their checkpoints give it", _gripper),
    ImportRule("", "env.*.image_size", "frames as they are recorded", _size(480)),
    ImportRule("", "env.*.image_width", "frames as they are recorded", _size(640)),
    ImportRule("", "env.eval.trials_per_task", "as many episodes as theirs, each once", _trials),
)
