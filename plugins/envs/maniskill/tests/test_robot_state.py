"""What a policy reads of the robot, compared with ManiSkill's own words for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from maniskill_cases import PICK, EnvMaker, small_config
from rlcore_env_maniskill.robots import ROBOTS
from rlcore_env_maniskill.spec import env_spec
from rlcore_env_maniskill.tasks import MAIN

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import Episode, StateChannel

ACTIONS = np.random.default_rng(2).uniform(-1, 1, (1, 4, 7)).astype(np.float32)


def test_the_spec_has_the_channels_of_the_state() -> None:
    """Of the panda seven joints and two fingers; of the benchmark's arm six and two."""
    hand = [("ee_position", 3), ("ee_rotation", 4), ("gripper_opening", 1)]
    for settings, states in (
        ({}, hand),
        ({"robot_state": "joints"}, [("joint_position", 9)]),
        ({"robot_state": "joints", "tasks": [MAIN]}, [("joint_position", 9)]),
        ({"robot_state": "joints", "tasks": [MAIN], "stand_ins": False}, [("joint_position", 8)]),
        ({"tasks": [MAIN], "stand_ins": False}, hand),
    ):
        found = env_spec(small_config(**settings)).states
        assert found == tuple(StateChannel(*channel) for channel in states), settings


def test_a_robot_whose_joints_are_not_known_is_refused(
    refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As xarm6_robotiq, whose gripper has several and which is not in ManiSkill's wheel."""
    assert [name for name, robot in ROBOTS.items() if robot.positions is None] == ["xarm6_robotiq"]
    monkeypatch.setitem(ROBOTS, "panda", replace(ROBOTS["panda"], positions=None))
    with refused(ConfigError, "panda_wristcam", "robot_state=end_effector"):
        env_spec(small_config(tasks=[PICK], robot_state="joints"))


@pytest.mark.usefixtures("vulkan")
@pytest.mark.parametrize(
    ("task", "joints"),
    [pytest.param("DrawTriangle-v1", 7, marks=pytest.mark.long), ("PickCubeSO100-v1", 6)],
)
def test_other_arms_have_the_joints_of_the_table(task: str, joints: int) -> None:
    """A stick in place of the hand; a jaw that is one of the joints."""
    from rlcore_env_maniskill.simulator import Simulator

    config = small_config(tasks=[task], robot_state="joints")
    alone = Simulator(config, task)
    alone.start(Episode(0, 0))
    assert alone.states.shape == (joints,) == (env_spec(config).state_dim,)
    alone.close()


@pytest.mark.usefixtures("vulkan")
@pytest.mark.parametrize("task", [PICK, MAIN])
@pytest.mark.long
def test_joints_are_what_maniskill_calls_qpos(task: str, make: EnvMaker) -> None:
    """`agent.robot.get_qpos()` is what RLinf sends its policies: to the bit, from the start on."""
    from rlcore_env_maniskill.batched import BatchedEnv
    from rlcore_env_maniskill.simulator import Simulator

    config = small_config(tasks=[task], robot_state="joints")
    alone = Simulator(config, task)
    alone.start(Episode(0, 3))
    qpos = [alone.env.agent.robot.get_qpos()[0].numpy().copy()]
    for action in ACTIONS[0]:
        alone.step(action)
        qpos.append(alone.env.agent.robot.get_qpos()[0].numpy().copy())
    alone.close()
    assert np.abs(qpos[-1] - qpos[0]).max() > 0.01  # rad: it moved
    episodes = {"episodes": [Episode(0, 3)]}
    ours = make(1, 1, tasks=[task], robot_state="joints")  # in a process of its own
    seen = [ours.reset(options=episodes)[0]["states"][0]]
    seen += [ours.chunk_step(ACTIONS[:, c : c + 1]).observation["states"][0] for c in range(4)]
    np.testing.assert_array_equal(seen, qpos)
    batch = BatchedEnv(config, env_spec(config), num_envs=1, first_slot=0)
    start, _ = batch.reset(options=episodes)
    np.testing.assert_allclose(start["states"][0], qpos[0], atol=1e-5)  # from a stored state
    batch.close()
