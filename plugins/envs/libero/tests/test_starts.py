"""(task, trial) fixes start and course bitwise: in any row, process and order, after anything."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from libero_cases import DRAWER, SOUP, STOVE, EnvMaker, needs_libero, small_config
from libero_scenes import require_liberos_own
from rlcore_env_libero.pool import make_pool
from rlcore_env_libero.scene import CHANGED
from rlcore_env_libero.simulator import LiberoSimulator
from rlcore_env_libero.suites import SUITES
from rlcore_mujoco.model import differing_arrays
from rlcore_simulation.env import SimulatedEnv
from rlcore_stand_ins.libero.write import write_stand_ins

from rlcore.contracts.specs import Episode

pytestmark = needs_libero
MOVES = np.random.default_rng(0).uniform(-1, 1, (6, 7)).astype(np.float32)
# to the side as fast as it goes, without a command of rotation, and into the table
HARD_MOVES = np.concatenate(
    [
        MOVES,
        np.tile(np.float32([1, -1, 0, 0, 0, 0, 1]), (6, 1)),
        np.tile(np.float32([0, 0, -2, 0.7, 0, -1, -1]), (10, 1)),
    ]
)


def whole_state(simulator: LiberoSimulator) -> np.ndarray:
    """Everything a future step or frame depends on, as one vector."""
    model, data = simulator.scene.model, simulator._row.data
    arm = simulator.scene.robot.controller
    parts = [data.qpos, data.qvel, data.ctrl, data.qacc_warmstart, data.site_xpos, [data.time]]
    parts += [model.body_pos, model.body_quat, model.site_rgba]
    parts += [
        simulator.states,
        arm.goal_pos,
        arm.goal_ori,
        simulator.scene.robot.gripper.current_action,
    ]
    return np.concatenate([np.ravel(part) for part in parts]).copy()


def course(simulator: LiberoSimulator, trial: int, moves: np.ndarray = MOVES) -> np.ndarray:
    """The states at the start and after each move `[1 + moves, S]`."""
    simulator.start(Episode(0, trial))
    states = [whole_state(simulator)]
    for move in moves:
        simulator.step(move)
        states.append(whole_state(simulator))
    return np.stack(states)


@pytest.mark.long
def test_course_is_bitwise_the_same_after_other_episodes_and_between_other_rows() -> None:
    fresh = {trial: course(make_pool(small_config()).take(0), trial) for trial in (3, 41)}
    pool = make_pool(small_config())
    one, two = pool.take(0), pool.take(0)
    for trial in (41, 3, 3, 41):  # another order than above, with repeats
        course(one, 7, MOVES[::-1])
        np.testing.assert_array_equal(course(one, trial), fresh[trial])
    # rows take turns step by step in one scene
    for simulator, trial in ((one, 3), (two, 41)):
        simulator.start(Episode(0, trial))
    for number, move in enumerate(MOVES, start=1):
        for simulator, trial in ((one, 3), (two, 41)):
            simulator.step(move)
            np.testing.assert_array_equal(whole_state(simulator), fresh[trial][number])
    assert one.scene is two.scene and not np.array_equal(fresh[3], fresh[41])
    pool.close()


def test_start_and_course_are_liberos_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # robosuite takes every text for numbers of GPUs, and tests set an empty one
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    write_stand_ins(tmp_path)
    require_liberos_own(SOUP, 5, MOVES, tmp_path, stand_ins=True)
    plain, fast = (make_pool(small_config(fast_render=fast)).take(0) for fast in (False, True))
    np.testing.assert_array_equal(course(fast, 5), course(plain, 5))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("suite", "task"),
    [
        ("libero_object", SOUP),  # on the floor
        ("libero_spatial", SUITES["libero_spatial"][0]),
        ("libero_goal", DRAWER),
        ("libero_10", SUITES["libero_10"][0]),  # living room
        ("libero_90", SUITES["libero_90"][0]),  # kitchen
        ("libero_90", SUITES["libero_90"][-1]),  # study
        ("libero_goal", STOVE),
    ],
)
def test_a_step_has_the_bits_of_robosuites_own(suite: str, task: str) -> None:
    """One row is played by rlcore, and another of the same scene by robosuite's env, by turns."""
    pool = make_pool(small_config(suite=suite, tasks=[task], settle_steps=0))
    ours, theirs = pool.take(0), pool.take(0)
    for simulator in (ours, theirs):
        simulator.start(Episode(0, 3))
    torques = []
    for move in HARD_MOVES:
        ours.step(move)
        state = whole_state(ours)
        theirs.scene.load(theirs._row)
        theirs.scene.env.step(move)
        np.testing.assert_array_equal(state, whole_state(theirs))
        for name, array in ours._row.seen.items():
            np.testing.assert_array_equal(array, theirs._row.seen[name], err_msg=name)
        torques.append(theirs._row.data.ctrl[:7].copy())
    # else there is little to tell apart: no torque at its limit, or nothing for the solver
    assert np.isin(np.abs(torques), theirs.scene.robot.torque_limits[1]).any()
    assert ours._row.data.ncon > 10
    pool.close()


@pytest.mark.quick(1)
@pytest.mark.parametrize(("suite", "task"), [("libero_goal", STOVE), ("libero_goal", DRAWER)])
def test_episodes_change_nothing_in_the_model_but_what_is_put_back(suite: str, task: str) -> None:
    pools = [make_pool(small_config(suite=suite, tasks=[task])) for _ in range(2)]
    simulator, unused = (pool.take(0) for pool in pools)
    scene, data = simulator.scene, simulator._row.data
    unused.scene.built.put(unused.scene.model)
    simulator.start(Episode(0, 0))
    hinges = np.flatnonzero(scene.model.jnt_type >= mujoco.mjtJoint.mjJNT_SLIDE.value)
    for end in (1, 0):  # drawers open and closed, stoves on and off
        for joint in hinges[9:]:  # after the arm's seven and the gripper's two
            data.qpos[scene.model.jnt_qposadr[joint]] = scene.model.jnt_range[joint, end]
        simulator.step(MOVES[0])
    changed = differing_arrays(scene.model, unused.scene.model)
    assert "site_rgba" in changed and changed <= set(CHANGED)
    scene.built.put(scene.model)
    assert differing_arrays(scene.model, unused.scene.model) == set()
    for pool in pools:
        pool.close()


def test_numpys_global_generator_is_left_as_it_was(shared_env: SimulatedEnv) -> None:
    np.random.seed(11)
    expected = np.random.random()
    np.random.seed(11)
    shared_env.reset(options={"episodes": [Episode(0, 0)] * 2})
    assert np.random.random() == expected


@pytest.mark.long
def test_a_binary_gripper_opens_above_one_half(make: EnvMaker) -> None:
    """The gripper of openpi's data closes at +1, OpenVLA's opens at 1; the arm moves alike."""
    signed, binary = make(2, 0), make(2, 0, gripper="binary")
    assert [c.low for c in binary.spec.actions] == [-1.0, -1.0, 0.0]
    episodes = [Episode(0, 1)] * 2
    closing, opening = MOVES.copy(), MOVES.copy()
    closing[:, -1], opening[:, -1] = 1.0, -1.0
    at_half, above = MOVES.copy(), MOVES.copy()
    at_half[:, -1], above[:, -1] = 0.5, 0.51
    played = []
    for env, moves in ((signed, (closing, opening)), (binary, (at_half, above))):
        env.reset(options={"episodes": episodes})
        played.append(env.chunk_step(np.stack(moves)).observation["states"])
    np.testing.assert_array_equal(played[0], played[1])
    widths = played[0][:, 6] - played[0][:, 7]
    assert widths[0] < widths[1]


@pytest.mark.long
def test_waiting_may_leave_the_gripper_as_it_is() -> None:
    widths = []
    for opens in (True, False):
        pool = make_pool(small_config(settle_steps=8, reset_gripper_open=opens))
        simulator = pool.take(0)
        simulator.start(Episode(0, 0))
        widths.append(simulator.states[6] - simulator.states[7])
    assert widths[0] > widths[1] + 0.005
