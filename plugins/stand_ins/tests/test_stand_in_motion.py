"""How a chunk of joint targets becomes a motion, with a timing that can be worked out by hand."""

from __future__ import annotations

import numpy as np
from rlcore_stand_ins.robotwin.motion import LONGEST, STILL, motion

HOME = np.zeros(14)
STEPS_PER_RADIAN = 100


def steady(path: np.ndarray, step: float) -> tuple[np.ndarray, ...]:
    """Joint 1 runs along the path at 1 rad per 100 steps; the other joints stay."""
    steps = round(STEPS_PER_RADIAN * float(np.abs(np.diff(path[:, 0])).sum()))
    positions = np.zeros((steps, 6))
    positions[:, 0] = np.linspace(path[0, 0], path[-1, 0], steps)
    speeds = np.full((steps, 6), 2.5)
    return np.arange(steps) * step, positions, speeds, speeds, steps * step


def chunk(count: int, *, left: float = 0.0, right: float = 0.0, grippers=(1.0, 1.0)) -> np.ndarray:
    """Targets `[count, 14]`: the first joints go evenly to `left` and `right`."""
    actions = np.zeros((count, 14))
    share = np.arange(1, count + 1) / count
    actions[:, 0], actions[:, 7] = left * share, right * share
    actions[:, 6], actions[:, 13] = grippers
    return actions


def test_both_arms_begin_and_end_together() -> None:
    # 2 and 1 rad: 200 and 100 steps; the right arm makes each of its steps twice
    made = motion(HOME, chunk(4, left=2.0, right=1.0), steady)
    assert made.positions[0].shape == made.positions[1].shape == (200, 6)
    np.testing.assert_allclose(made.positions[0][:, 0], np.linspace(0, 2, 200))
    np.testing.assert_allclose(made.positions[1][:, 0], np.linspace(0, 1, 100).repeat(2))
    assert made.ends.tolist() == [49, 99, 149, 199]


def test_grippers_are_spread_over_the_time_of_the_chunk() -> None:
    actions = chunk(4, left=2.0)
    actions[:, 6] = [0.0, 0.5, 0.5, 1.0]
    actions[:, 13] = 0.0
    made = motion(HOME, actions, steady)
    # from 0, in 50 steps each: stay, up by 0.5 / 50 a step, stay, up again
    np.testing.assert_allclose(
        made.grippers[[49, 50, 99, 149, 150, 199], 0], [0.0, 0.01, 0.5, 0.5, 0.51, 1.0]
    )
    assert not made.grippers[:, 1].any()


def test_an_action_that_repeats_its_target_takes_no_time_of_the_arm() -> None:
    # RoboTwin drops such waypoints, so 1 rad takes 100 steps, though half the actions wait
    actions = chunk(2, left=1.0)
    held = np.vstack([actions, actions[-1:], actions[-1:]])
    made = motion(HOME, held, steady)
    assert len(made.positions[0]) == 100 and made.ends.tolist() == [24, 49, 74, 99]


def test_arms_that_stay_give_the_grippers_their_time() -> None:
    made = motion(HOME, chunk(3, grippers=(0.0, 1.0)), steady)
    assert made.positions[0].shape == (STILL, 6) and not made.velocities[0].any()
    # a third of 50 steps each, rounded up
    assert made.ends.tolist() == [16, 33, 49]


def test_a_path_that_can_not_be_timed_jumps_to_its_end() -> None:
    def never(path: np.ndarray, step: float):
        raise RuntimeError("Fail to parameterize path")

    made = motion(HOME, chunk(2, left=1.0), never)
    assert (made.positions[0][:, 0] == 1.0).all() and len(made.positions[0]) == STILL


def test_a_long_motion_is_played_faster() -> None:
    made = motion(HOME, chunk(2, left=8.0), steady)  # 800 steps
    assert len(made.positions[0]) == LONGEST
    assert made.positions[0][0, 0] == 0.0 and made.positions[0][-1, 0] == 8.0


def test_every_action_ends_even_where_there_are_more_than_steps() -> None:
    made = motion(HOME, chunk(75), steady)  # 75 actions in 50 steps
    assert len(made.ends) == 75 and made.ends[-1] == STILL - 1
    assert (np.diff(made.ends) >= 0).all() and made.ends.min() >= 0
