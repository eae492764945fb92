"""Evaluation protocols: published tables, and the tasks of the stand-in scene. No simulator.

The published ones are RLinf's tables of OpenVLA-OFT on seven tasks and of π0 on one task, and
RoboTwin's own table of all tasks, clean and randomized.
"""

from __future__ import annotations

from typing import Any

from rlcore_simulation.published import published

from rlcore.contracts.specs import ProtocolSpec
from rlcore_env_robotwin.tasks import BOXES, FAMILIES, TASKS

# The tasks of RLinf's table, with the time limits of their recipes.
STEPS = {
    "beat_block_hammer": 200,
    "pick_dual_bottles": 100,
    "place_empty_cup": 200,
    "place_container_plate": 150,
    "move_can_pot": 200,
    "lift_pot": 200,
    "handover_block": 400,
}
# RoboTwin's own time limits (task_config/_eval_step_limit.yml), by steps; that of all other
# tasks is USUAL.
USUAL = 400
LONGER = {
    500: (
        "place_bread_skillet",
        "place_burger_fries",
        "place_empty_cup",
        "place_shoe",
        "scan_object",
    ),
    600: ("dump_bin_bigbin", "handover_mic", "place_dual_shoes"),
    700: (
        "place_bread_basket",
        "place_can_basket",
        "place_object_basket",
        "shake_bottle",
        "shake_bottle_horizontally",
    ),
    800: ("handover_block", "place_cans_plasticbox", "stack_blocks_two"),
    900: ("hanging_mug", "stack_bowls_two"),
    1200: ("blocks_ranking_rgb", "blocks_ranking_size", "stack_blocks_three", "stack_bowls_three"),
    1500: ("open_microwave",),
    1700: ("put_bottles_dustbin",),
}
LIMITS = {task: USUAL for task in TASKS} | {
    task: steps for steps, tasks in LONGER.items() for task in tasks
}
# RoboTwin's two columns, and the setting of each.
COLUMNS = {"clean": "demo_clean", "randomized": "demo_randomized"}


def _row(task: str, setting: str, told: str, trials: int, steps: int) -> dict[str, Any]:
    return {
        "tasks": [task],
        "setting": setting,
        "instruction_type": told,
        "trials_per_task": trials,
        "max_episode_steps": steps,
    }


def _column(setting: str, said: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the groups of a column of RoboTwin's table, one for each family of tasks."""
    return {
        f"{family}, {said}": {
            f"{task}, {said}": _row(task, setting, "unseen", 100, LIMITS[task]) for task in tasks
        }
        for family, tasks in FAMILIES.items()
    }


def _rlinf(task: str, setting: str, steps: int) -> dict[str, dict[str, Any]]:
    """Return the group of a column of RLinf's tables, which is one task."""
    return {task: _row(task, setting, "seen", 128, steps)}


MAY_DIFFER = ("setting", "instruction_type", "trials_per_task", "max_episode_steps")

TABLE = ProtocolSpec(
    env="robotwin",
    groups={task: _rlinf(task, "demo_randomized", steps) for task, steps in STEPS.items()},
    averages={"Average": tuple(STEPS)},
    may_differ=MAY_DIFFER,
    **published(__file__, "robotwin"),
)
ADJUST_BOTTLE = ProtocolSpec(
    env="robotwin",
    groups={"adjust_bottle": _rlinf("adjust_bottle", "demo_clean", 200)},
    may_differ=MAY_DIFFER,
    **published(__file__, "robotwin_adjust_bottle"),
)
ALL = ProtocolSpec(
    env="robotwin",
    groups={
        group: rows
        for column, setting in COLUMNS.items()
        for group, rows in _column(setting, column).items()
    },
    totals={column: tuple(f"{family}, {column}" for family in FAMILIES) for column in COLUMNS},
    may_differ=("instruction_type", "trials_per_task", "max_episode_steps"),
)
OF_BOXES = ProtocolSpec(
    env="robotwin",
    groups={task: {task: {"tasks": [task]}} for task in BOXES},
    averages={"Average": BOXES},
)
