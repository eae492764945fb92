"""Fixtures shared by the unit tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from rlcore.rollout.trajectory import Trajectory


def play_randomly(
    *,
    chunks: int = 6,
    columns: int = 5,
    actions: int = 3,
    entries: int = 2,
    value_width: int = 1,
    auto_reset: bool = False,
    group_size: int = 0,
    seed: int = 0,
) -> Trajectory:
    """A trajectory with ends of both kinds inside chunks, made action by action.

    Without auto_reset a column is idle after its end; with it the next chunk starts an episode.
    Inputs are 4 random features per decision, replay holds the decided actions.
    """
    random = np.random.default_rng(seed)
    shape = (chunks, columns, actions)
    rewards, valid = np.zeros(shape, np.float32), np.zeros(shape, bool)
    terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
    logprobs = np.zeros((*shape, entries), np.float32)
    values = np.zeros((chunks, columns, value_width), np.float32)
    bootstrap = np.zeros_like(values)
    episode, index = np.zeros(shape[:2], np.int64), np.full(shape[:2], -1)
    success = np.zeros(shape[:2], bool)
    decisions = 0
    for n in range(columns):
        over = False
        for t in range(chunks):
            if t and (terminated | truncated)[t - 1, n].any():
                over = not auto_reset
                episode[t:, n] += 1 if auto_reset else 0
            if over:
                continue
            index[t, n] = decisions
            decisions += 1
            logprobs[t, n] = random.normal(size=(actions, entries))
            values[t, n] = random.normal(size=value_width)
            for c in range(actions):
                valid[t, n, c] = True
                rewards[t, n, c] = random.normal()
                draw = random.random()
                if draw < 0.06:
                    terminated[t, n, c] = success[t, n] = True
                elif draw < 0.12:
                    truncated[t, n, c] = True
                if draw < 0.12:
                    break
            ended = (terminated | truncated)[t, n].any()
            if truncated[t, n].any() or (t == chunks - 1 and not ended):
                bootstrap[t, n] = random.normal(size=value_width)
    group = np.arange(columns) // group_size if group_size else np.full(columns, -1)
    number = np.broadcast_to(np.arange(columns), shape[:2])

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array))

    return Trajectory(
        rewards=tensor(rewards),
        valid=tensor(valid),
        terminated=tensor(terminated),
        truncated=tensor(truncated),
        logprobs=tensor(logprobs),
        values=tensor(values),
        bootstrap_values=tensor(bootstrap),
        task=tensor(np.zeros(shape[:2], np.int64)),
        trial=tensor(number),
        replica=tensor(np.zeros(shape[:2], np.int64)),
        group=tensor(np.broadcast_to(group, shape[:2]).astype(np.int64)),
        episode=tensor(episode),
        policy_version=tensor(np.zeros(shape[:2], np.int64)),
        success=tensor(success),
        sample_index=tensor(index.astype(np.int64)),
        inputs={"features": tensor(random.normal(size=(decisions, 4)).astype(np.float32))},
        replay={"action": tensor(random.normal(size=(decisions, actions, entries)))},
    )


@pytest.fixture
def play() -> Callable[..., Trajectory]:
    """Makes random trajectories; see :func:`play_randomly`."""
    return play_randomly
