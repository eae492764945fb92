"""(task, trial) fixes the start and what follows bitwise: in any process, after anything."""

from __future__ import annotations

import numpy as np
import pytest
from maniskill_cases import PICK, PUSH, small_config
from rlcore_env_maniskill.experts import EXPERT_TASKS
from rlcore_env_maniskill.simulator import Simulator
from rlcore_env_maniskill.tasks import MAIN

from rlcore.contracts.specs import Episode

pytestmark = pytest.mark.usefixtures("vulkan")

# Eight steps in which the arm comes down and stirs.
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (8, 7)).astype(np.float32)
ACTIONS[:, 2] -= 0.5


def simulator(task: str, **settings) -> Simulator:
    return Simulator(small_config(tasks=[task], obs_mode="state", **settings), task)


def followed(simulator: Simulator, trial: int) -> np.ndarray:
    """Start and course of a trial: what ManiSkill observes, whether it is solved, poses and
    velocities of everything, float `[9, ...]`."""
    simulator.start(Episode(0, trial))
    rows = [whole_state(simulator)]
    for action in ACTIONS:
        simulator.step(action)
        rows.append(whole_state(simulator))
    return np.stack(rows)


def whole_state(simulator: Simulator) -> np.ndarray:
    return np.concatenate([simulator.states, simulator.env.get_state()[0].numpy()])


def make_dirty(simulator: Simulator, trial: int) -> None:
    """Play until something is held or was pushed about: the expert, or blindly downwards."""
    simulator.start(Episode(0, trial))
    for action in np.concatenate([ACTIONS] * 4):
        if simulator.task in EXPERT_TASKS:
            action = simulator.expert_action(speed=1.0)
        if simulator.step(action).success:
            break


@pytest.mark.parametrize(
    "task", [*(pytest.param(task, marks=pytest.mark.long) for task in (PICK, PUSH)), MAIN]
)
def test_start_and_course_are_bitwise_the_same_after_dirty_episodes(task: str) -> None:
    fresh = {}
    for trial in (3, 10_003):
        alone = simulator(task)
        fresh[trial] = followed(alone, trial)
        alone.close()
    used = simulator(task)
    for trial in (10_003, 3, 3, 10_003):  # another order than above, with repeats
        make_dirty(used, trial=7)
        np.testing.assert_array_equal(followed(used, trial), fresh[trial])
    assert not np.array_equal(fresh[3], fresh[10_003])
    used.close()


def test_without_rebuilding_starts_are_exact_all_the_same() -> None:
    used, starts = simulator(PUSH, rebuild_scene=False), []
    for _ in range(2):
        used.start(Episode(0, 3))
        starts.append(whole_state(used))
        make_dirty(used, trial=7)
    fresh = simulator(PUSH, rebuild_scene=False)
    fresh.start(Episode(0, 3))
    for start in starts:
        np.testing.assert_array_equal(start, whole_state(fresh))


def test_a_whole_push_repeats_to_the_bit_after_other_pushes() -> None:
    """Contacts are where a physics engine that is used again comes out otherwise."""
    used = simulator(PUSH)
    used.start(Episode(0, 0))
    actions = []
    for _ in range(12):
        actions.append(used.expert_action(speed=1.0))
        used.step(actions[-1])
    noise = np.random.default_rng(2)
    courses = []
    for number in range(4):
        used.start(Episode(0, number))
        for _ in range(4 * number):
            wild = used.expert_action(speed=1.0) + 0.2 * noise.standard_normal(7)
            used.step(wild.astype(np.float32))
        used.start(Episode(0, 0))
        courses.append([])
        for action in actions:
            used.step(action)
            courses[-1].append(whole_state(used))
        np.testing.assert_array_equal(courses[-1], courses[0])


@pytest.mark.parametrize("rebuild", [True, False])
def test_a_held_cube_is_not_grasped_at_the_next_start(rebuild: bool) -> None:
    """PickCube's state begins with 9 + 9 joint entries, then whether the cube is grasped."""
    used = simulator(PICK, rebuild_scene=rebuild)
    used.start(Episode(0, 7))
    while used.states[18] == 0.0:
        used.step(used.expert_action(speed=1.0))
    used.start(Episode(0, 7))
    assert used.states[18] == 0.0
