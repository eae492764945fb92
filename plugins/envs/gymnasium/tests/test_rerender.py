"""An episode is drawn again in larger frames, from its start and its actions."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from rlcore_tools.rerender import rerender

from rlcore.api import Trace, build_checked_env, compose
from rlcore.contracts.specs import Episode

WORDS = ("env=gymnasium", "env.*.id=CartPole-v1", "env.*.success=return:5", "env.*.num_processes=0")
EPISODE = Episode(0, 10_003)


def config(size):
    return compose(*WORDS, f"env.*.image_size={size}", require=("env",))


def played():
    """Two decisions of three steps each, of which the fifth solves the task."""
    env, _ = build_checked_env(config(16), "eval", num_envs=1)
    actions = np.array([[1.0, -1.0], [-1.0, 1.0]] * 3, np.float32).reshape(2, 1, 3, 2)
    with closing(env):
        states = [env.reset([0], [EPISODE])["states"][0]]
        states.append(env.chunk_step(actions[0]).observation["states"][0])
        env.chunk_step(actions[1])
    return Trace("", {"states": np.stack(states), "actions": actions[:, 0]})


def test_a_replay_in_larger_frames_is_the_same_episode():
    trace = played()
    footage = rerender(config(128), "eval", EPISODE, trace)
    assert footage is not None and footage.episode == EPISODE
    assert {frame.shape for frame in footage.frames} == {(128, 128, 3)}
    assert [footage.steps[-1], footage.returns[-1], footage.successes[-1]] == [5, 5.0, True]
    assert footage.steps == sorted(footage.steps) and len({*footage.steps}) >= 4
    trace.arrays["states"][1, 0] += 1e-3
    assert rerender(config(128), "eval", EPISODE, trace) is None
