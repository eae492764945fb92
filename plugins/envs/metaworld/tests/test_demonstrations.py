"""MetaWorld's experts as demonstrators."""

from __future__ import annotations

import numpy as np
import pytest
from metaworld_cases import CAMERA, EnvMaker
from rlcore_simulation.env import SimulatedEnv

from rlcore.contracts.specs import Episode

CLEAN = {"action_noise": 0.0, "speed": 1.0, "stride": 4, "seed": 0}


@pytest.mark.long
def test_demonstrations_succeed_and_replay(shared_env: SimulatedEnv) -> None:
    env = shared_env
    wanted = [Episode(task, trial) for task in (0, 1) for trial in (0, 1)]
    played = list(env.demonstrate(wanted, **CLEAN))
    assert sorted(each.episode for each in played) == wanted
    for each in played:
        length = len(each.actions)
        assert each.success and each.states.shape == (length, 4)
        assert each.actions.dtype == each.states.dtype == np.float32
        assert np.abs(each.actions).max() <= 1.0
        np.testing.assert_array_equal(each.frame_steps, np.arange(0, length, 4))
        assert each.frames[CAMERA].shape == (len(each.frame_steps), 32, 32, 3)
        assert each.instruction == env.spec.instructions[each.episode.task]
        # the stored actions, played again, succeed in the very last step
        start, _ = env.reset(options={"episodes": [each.episode] * 3})
        np.testing.assert_array_equal(start["states"][0], each.states[0])
        np.testing.assert_array_equal(start["cameras"][CAMERA][0], each.frames[CAMERA][0])
        result = env.chunk_step(np.stack([each.actions, *np.zeros((2, length, 4), np.float32)]))
        assert np.flatnonzero(result.terminated[0]).tolist() == [length - 1]


def test_noise_is_keyed_and_not_stored(make: EnvMaker) -> None:
    env = make(1, 0)

    def play(seed: int, noise: float):
        settings = {"speed": 1.0, "stride": 50, "seed": seed, "action_noise": noise}
        (played,) = env.demonstrate([Episode(0, 3)], **settings)
        return played

    noisy, same, other, clean = play(0, 0.3), play(0, 0.3), play(1, 0.3), play(0, 0.0)
    np.testing.assert_array_equal(noisy.states, same.states)
    np.testing.assert_array_equal(noisy.actions, same.actions)
    assert not np.array_equal(noisy.states[1], other.states[1])
    # one start, so one clean first action, but another one executed
    np.testing.assert_array_equal(noisy.actions[0], clean.actions[0])
    assert not np.array_equal(noisy.states[1], clean.states[1])


def test_speed_scales_motion_but_not_the_gripper(make: EnvMaker) -> None:
    env = make(1, 0)
    (full,) = env.demonstrate([Episode(0, 3)], **CLEAN)
    (slow,) = env.demonstrate([Episode(0, 3)], **(CLEAN | {"speed": 0.5}))
    np.testing.assert_allclose(slow.actions[0, :3], 0.5 * full.actions[0, :3], rtol=1e-6)
    assert slow.actions[0, 3] == full.actions[0, 3]
    assert len(slow.actions) > len(full.actions)
