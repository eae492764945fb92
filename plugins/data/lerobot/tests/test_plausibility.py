"""Likely mistakes of a description are one warning each: where data are looked at and learned from.

The same data set each time: a camera above and one at the wrist, joints in radians, and a gripper
whose 1 is open, as it is where each episode begins.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from arm_cases import DESCRIPTION, arm, described

from rlcore.cli.main import main
from rlcore.demonstrations.datasets import format_of

DEGREES = 180 / math.pi
EXCHANGED = DESCRIPTION.replace("images.top", "images.X").replace("images.wrist", "images.top")
EXCHANGED = EXCHANGED.replace("images.X", "images.wrist")
WIDE = DESCRIPTION.replace("[-1.6, 1.6], convention: target in rad", "[-30, 30]")
OTHER_SIGN = DESCRIPTION.replace("convention: 1 is open", "convention: 1 closes")
FLIPPED = DESCRIPTION.replace('"action[3]", scale: 1', '"action[3]", scale: -1, offset: 1')
MISTAKES = {
    "none": (1.0, DESCRIPTION, []),
    "cameras": (1.0, EXCHANGED, ["cameras.top", "cameras.wrist", "exchanged"]),
    "degrees": (DEGREES, WIDE, ["actions.joint_position", "57.3", "degrees", "radians"]),
    "radians": (
        DEGREES,
        WIDE.replace("[-30, 30]", "[-30, 30], convention: in rad").replace(
            "observation.state, scale: 1", "observation.state, scale: 57.29578"
        ),
        ["actions.joint_position", "in rad", "0.0174533"],
    ),
    "convention": (1.0, OTHER_SIGN, ["actions.gripper", "6 of 6 episodes", "sign"]),
    "sign": (1.0, FLIPPED, ["actions.gripper", "6 of 6 episodes", "sign"]),
    "small": (
        1.0,
        DESCRIPTION.replace("[-1.6, 1.6], convention: target in rad", "[-9, 9]"),
        ["actions.joint_position", "less than a tenth", "[-9, 9]"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_remark(tmp_path: Path, mistake: str) -> None:
    unit, text, words = MISTAKES[mistake]
    arm(tmp_path / "arm", unit=unit)
    file = described(tmp_path, text)
    warnings = format_of(file).read(file).summary().warnings
    assert len(warnings) == bool(words), warnings
    assert all(word in warnings[0] for word in words)


def test_a_remark_is_told_before_training_and_by_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arm(tmp_path / "arm")
    file = described(tmp_path, EXCHANGED)
    words = [
        "env=data",
        "model=gaussian",
        "algorithm=ppo",
        "cluster.backend=local",
        "sft.max_steps=1",
        f"collect.path={file}",
        f"runner.logger.log_path={tmp_path}/logs",
    ]
    for flags in (["--dry-run"], []):
        assert main(["sft", *words, *flags]) == 0
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if "exchanged" in line]
        assert len(lines) == 1 and lines[0].startswith("warning: "), flags
