"""RoboTwin's own code, where `ROBOTWIN_PATH` names a checkout of its branch; needs no assets and no
GPU. Its functions run in the environment that RoboTwin's simulators have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rlcore_env_robotwin.checkout import CLUTTER
from rlcore_env_robotwin.plugin import rlcore_components
from rlcore_sapien.vulkan import environment
from rlcore_simulation.module_links import link_modules
from rlcore_stand_ins.robotwin import arm

SCRIPT = Path(__file__).with_name("robotwin_own_code.py")
NO_CLUTTER: dict[str, Any] = {"item_names": [], "list_of_items": {}}
OBJECTS = [
    "047_mouse",
    "048_stapler",
    "050_bell",
    "057_toycar",
    "073_rubikscube",
    "079_remotecontrol",
]


PIPER = "assets/embodiments/piper"
TURNED = [0.0, -0.42, 0.74, 0.5**0.5, 0.0, 0.0, 0.5**0.5]  # they look along the world's y
HEAD = {"position": [0.0, -0.45, 1.42], "forward": [0.0, 0.6, -0.8], "left": [-1.0, 0.0, 0.0]}
ARMS = {
    "urdf_path": "./arm.urdf",
    "srdf_path": "./arm.srdf",
    "move_group": ["hand"] * 2,
    "ee_joints": ["hand_joint"] * 2,
    "arm_joints_name": [list(arm.JOINTS)] * 2,
    "gripper_name": [{"base": arm.FINGERS[0], "mimic": [[arm.FINGERS[1], 1.0, 0.0]]}] * 2,
    "gripper_bias": 0.0,
    "gripper_scale": [0.0, arm.OPENING],
    "homestate": [arm.HOME.tolist()] * 2,
    "robot_pose": [TURNED],
    "static_camera_list": [{"name": "head_camera", "type": "D435", **HEAD}],
}


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    names, same = CLUTTER
    files = {names: json.dumps(NO_CLUTTER), same: "{}"}
    both = {"arm.urdf": arm.urdf("arm"), "arm.srdf": arm.srdf("arm")}
    files |= both | {f"{PIPER}/{name}": text for name, text in both.items()}
    files[f"{PIPER}/config.yml"] = yaml.safe_dump(ARMS)
    files |= {
        f"assets/objects/{name}/model_data{n}.json": "{}" for name in OBJECTS for n in range(9)
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


Asked = Callable[..., dict[str, Any]]


@pytest.fixture
def found(
    other_venv: Callable[..., Path], assets: Path, tmp_path_factory: pytest.TempPathFactory
) -> Asked:
    """What the script finds, given its words."""
    repository = os.environ.get("ROBOTWIN_PATH")
    if not repository:
        pytest.skip("ROBOTWIN_PATH names no checkout of RoboTwin (docs/robotwin.md)")
    component = rlcore_components()[0]
    wanted = component.requires_python
    venv = other_venv("robotwin", *component.requirements, requires_python=wanted)
    modules = tmp_path_factory.mktemp("modules")
    link_modules(modules, ["rlcore_env_robotwin"])

    def asked(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [venv / "bin/python", SCRIPT, repository, assets, *words],
            env={**environment(), **os.environ, "PYTHONPATH": str(modules)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return asked


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_rewards_and_hands_are_what_robotwins_own_code_computes(found: Asked) -> None:
    """Of one chunk each: nothing stacked, a block on the other, a hand near a block, the same with
    the gripper further closed, and a block that counts as picked up."""
    worth = found("dense")
    assert worth["ours"] == pytest.approx(worth["theirs"], abs=1e-9)
    assert worth["state"] == pytest.approx(worth["hand"], abs=1e-6)
    apart, stacked, *_, picked = worth["theirs"]
    assert 0 <= apart < 0.1 < stacked < 1 and len(set(worth["theirs"])) == 5
    assert picked > 5 / 12  # of Pick and the step behind it, of 12 in all


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_starts_of_robotwins_own_code_depend_on_nothing_else(
    found: Asked,
) -> None:
    """Of two tasks the table is 0.3 m to the right, and RoboTwin puts clutter 0.59 m to each side;
    left alone, the four starts drift: -0.29, 0.01, 0.31, 0.31."""
    here, there = found(), found("backwards")
    assert here == there
    shifted = pytest.approx([-0.29, 0.89])
    assert here["edges"] == [shifted, shifted, shifted, pytest.approx([-0.59, 0.59])]
    assert len(set(here["models"])) > 1
    assert here["drawn"][0] == here["drawn"][1]
