"""Tasks outside our table: what their classes say, and the ones that are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from maniskill_cases import small_config
from rlcore_env_maniskill import registered
from rlcore_env_maniskill.spec import env_spec

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore.contracts.specs import Episode

LAUNDRY = """
from mani_skill.envs.tasks.tabletop.push_cube import PushCubeEnv
from mani_skill.utils.registration import register_env

print("the module of a user may print")

@register_env("FoldShirt-v0")
class FoldShirt(PushCubeEnv):
    SUPPORTED_REWARD_MODES = ["sparse", "none"]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, robot_uids="panda_wristcam", **kwargs)

    SUPPORTED_ROBOTS = None
"""


@pytest.fixture
def laundry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module of a user's with a task that it registers."""
    (tmp_path / "rlcore_test_laundry.py").write_text(LAUNDRY)
    monkeypatch.syspath_prepend(tmp_path)
    # as in a process that has loaded no simulator
    monkeypatch.delitem(sys.modules, "mani_skill", raising=False)
    registered.facts_of.cache_clear()


@pytest.mark.long
def test_a_task_of_the_user_needs_no_entry_in_our_table(refused, laundry: None) -> None:
    settings = {"tasks": ["FoldShirt-v0"], "register": ["rlcore_test_laundry"]}
    spec = env_spec(small_config(**settings, cameras=["hand_camera"]))  # of the class's own robot
    assert spec.instructions == ("fold shirt",) and not spec.has_expert
    assert "rlcore_test_laundry" not in sys.modules and "mani_skill" not in sys.modules
    with refused(ConfigError, "dense"):
        env_spec(small_config(**settings, reward="dense"))


@pytest.mark.parametrize(
    ("task", "settings", "named"),
    [
        ("TwoRobotPickCube-v1", {}, "['panda_wristcam', 'panda_wristcam']"),
        ("TwoRobotPickCube-v1", {"robot": "panda"}, "panda_wristcam with panda_wristcam"),
        ("TwoRobotPickCube-v1", {"robot": "so100"}, "panda_wristcam with panda_wristcam"),
        ("PickCubeWidowXAI-v1", {}, "['widowxai']"),
        ("PushCube-v1", {"robot": "so100"}, "so100"),
        ("DrawTriangle-v1", {"gripper": "binary"}, "'panda_stick'"),
        ("PickCubeSO100-v1", {"obs_mode": "state"}, "state"),
        ("PickCube-v1", {"robot": "so100", "obs_mode": "state"}, "state"),
        ("PickCubeSO100-v1", {"control_mode": "pd_ee_delta_pose"}, "pd_joint_delta"),
        ("MS-CartpoleBalance-v1", {}, "robots"),
        ("Empty-v1", {}, "'sparse'"),
        ("PickCub-v1", {}, "'PickCube-v1'"),
    ],
)
def test_unsupported_tasks_are_refused(refused, task: str, settings: dict, named: str) -> None:
    import mani_skill.envs  # noqa: F401, read in this process: quicker

    with refused(ConfigError, named):
        env_spec(small_config(tasks=[task], **settings))


def test_a_module_that_is_not_there_is_named(refused) -> None:
    import mani_skill.envs  # noqa: F401

    with refused(ConfigError, "no_such_module"):
        env_spec(small_config(tasks=["FoldShirt-v1"], register=["no_such_module"]))


def test_missing_files_are_refused_before_a_simulator_is_made(refused) -> None:
    import mani_skill.envs  # noqa: F401

    with refused(AssetError, "'ycb'", text=False):  # names this Python
        env_spec(small_config(tasks=["PickSingleYCB-v1"]))
    with refused(AssetError, "xarm6_robotiq", "'xarm6'", text=False):
        env_spec(small_config(tasks=["PickCube-v1"], robot="xarm6_robotiq"))


STICK = {"tasks": ["PushT-v1"], "control_mode": "pd_ee_delta_pos"}
SMALL_ARM = {"tasks": ["PickCubeSO100-v1"], "robot": "so100"}  # which the task passes by itself


def test_a_task_of_our_table_takes_the_arms_that_its_class_names() -> None:
    import mani_skill.envs  # noqa: F401

    spec = env_spec(small_config(tasks=["PickCube-v1"], robot="so100"))
    assert [(a.size, a.convention) for a in spec.actions] == [
        (5, "1 is 0.05 rad a step, pd_joint_delta_pos"),
        (1, "1 is 0.2 rad a step, pd_joint_delta_pos"),
    ]
    assert not spec.has_expert


@pytest.mark.usefixtures("vulkan")
@pytest.mark.parametrize(
    ("settings", "sizes", "states"),
    [
        pytest.param(STICK, [("ee_delta_position", 3)], 7, marks=pytest.mark.long),
        (SMALL_ARM, [("joint_delta", 5), ("joint_delta", 1)], 8),
    ],
)
def test_arms_with_other_hands_are_played(
    settings: dict, sizes: list[tuple[str, int]], states: int
) -> None:
    """A step in metric units moves what it says."""
    import mani_skill.envs  # noqa: F401, read in this process: quicker
    from rlcore_env_maniskill.simulator import Simulator

    config = small_config(**settings, action_units="metric")
    spec = env_spec(config)
    assert [(a.meaning, a.size) for a in spec.actions] == sizes and spec.state_dim == states
    simulator = Simulator(config, spec.tasks[0])
    simulator.start(Episode(0, 3))
    assert simulator.states.shape == (states,)
    action = np.zeros(spec.action_dim, dtype=np.float32)
    if sizes[0][0] == "joint_delta":
        before = simulator.states[-1], simulator.env.agent.robot.get_qpos()[0, -1].item()
        action[-1] = 0.2
        simulator.step(action)
        turned = simulator.env.agent.robot.get_qpos()[0, -1].item() - before[1]
        assert 0.05 < turned < 0.25
        low, high = simulator.env.agent.robot.get_qlimits()[0, -1].tolist()
        opened = simulator.states[-1] - before[0]
        assert opened == pytest.approx(turned / (high - low), rel=1e-4)
    else:
        before = simulator.states[:3]
        action[2] = 0.05
        for _ in range(2):
            simulator.step(action)
        assert 0.02 < (simulator.states[:3] - before)[2] < 0.12
    simulator.close()


@pytest.mark.usefixtures("vulkan")
def test_a_task_that_never_tells_success_is_refused(
    refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its class where that says so, else once it has been made."""
    from mani_skill.envs.sapien_env import BaseEnv
    from mani_skill.envs.tasks.tabletop.push_cube import PushCubeEnv
    from mani_skill.utils.registration import REGISTERED_ENVS, register_env
    from rlcore_env_maniskill.raw import make_raw

    settings = {"obs_mode": "state", "state_size": 35}
    silent = type("Silent", (PushCubeEnv,), {"evaluate": BaseEnv.evaluate})
    mute = type("Mute", (PushCubeEnv,), {"evaluate": lambda self: {}})
    for name, made in (("Silent-v0", silent), ("Mute-v0", mute)):
        register_env(name)(made)
    try:
        with refused(ConfigError, "Silent-v0"):
            env_spec(small_config(tasks=["Silent-v0"], **settings))
        with refused(ConfigError, "Mute-v0", registered.PLAYED):
            make_raw(small_config(tasks=["Mute-v0"], **settings), "Mute-v0")
    finally:
        for name in ("Silent-v0", "Mute-v0"):
            del REGISTERED_ENVS[name]
