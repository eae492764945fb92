"""Words that errors share."""

from __future__ import annotations

from rlcore.errors import FAMILY, listing


def test_names_are_listed_and_large_families_counted():
    tasks = [f"robot_{number:02}" for number in range(FAMILY + 1)]
    assert listing(["toy", "robot", *tasks]) == f"robot, {FAMILY + 1} names robot_..., toy"
    assert listing(["robot", *tasks[1:3], "a"]) == "a, robot, robot_01, robot_02"
    assert listing(tasks[:2]) == "robot_00, robot_01"  # nothing has that name alone
    assert listing([]) == ""
