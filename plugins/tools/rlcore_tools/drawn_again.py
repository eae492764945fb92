"""Draw an episode again in larger frames, from its start and its actions: no policy is asked."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from rlcore.api import Phase, Trace
from rlcore.config.schema import RunConfig
from rlcore.contracts.episodes import Footage
from rlcore.contracts.specs import Episode
from rlcore_tools.vector_env import checked_env


def drawn_again(config: RunConfig, phase: Phase, episode: Episode, trace: Trace) -> Footage | None:
    """The footage of an episode, simulated once more.

    Args:
        config: as the episode was played, but for the size of frames.
        trace: its actions, and the states that its decisions saw.

    Returns:
        None where the env, given the same actions, came to other states.
    """
    env, _ = checked_env(config, phase, num_envs=1)
    footage, step, total = Footage(episode), 0, 0.0
    with closing(env):
        env.record([0])
        seen = env.reset([0], [episode])
        for states, actions in zip(trace.arrays["states"], trace.arrays["actions"], strict=True):
            if not np.array_equal(states, seen["states"][0]):
                return None
            result = env.chunk_step(actions[None])
            seen, rewards = result.observation, result.rewards[0][result.valid[0]]
            footage.add_chunk(
                env.recorded().get(0, []),
                step=step,
                total=total,
                rewards=rewards,
                success=bool(result.success[0]),
            )
            step, total = step + len(rewards), total + float(rewards.sum())
    return footage
