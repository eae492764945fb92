"""Re-render an episode in larger frames by repeating its actions from its start, without policy."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from rlcore.api import Phase, Trace, build_checked_env
from rlcore.config.schema import RunConfig
from rlcore.contracts.episodes import Footage
from rlcore.contracts.specs import Episode


def rerender(config: RunConfig, phase: Phase, episode: Episode, trace: Trace) -> Footage | None:
    """Simulate an episode once more and return its footage.

    Args:
        config: configuration with which the episode was played, except for the frame size.
        trace: recorded actions, and the states that the policy observed at each decision.

    Returns:
        the footage, or None if the same actions did not reproduce the recorded states exactly.
    """
    env, _ = build_checked_env(config, phase, num_envs=1)
    footage = Footage(episode)
    step = 0
    total = 0.0
    with closing(env):
        env.record([0])
        observation = env.reset([0], [episode])
        for states, actions in zip(trace.arrays["states"], trace.arrays["actions"], strict=True):
            if not np.array_equal(states, observation["states"][0]):
                return None
            result = env.chunk_step(actions[None])
            observation = result.observation
            rewards = result.rewards[0][result.valid[0]]
            footage.add_chunk(
                env.recorded().get(0, []),
                step=step,
                total=total,
                rewards=rewards,
                success=bool(result.success[0]),
            )
            step += len(rewards)
            total += float(rewards.sum())
    return footage
