"""All ways of working are measured, and lead to the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlcore.contracts.trajectory import Trajectory

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

pytest.importorskip("rlcore_env_metaworld")
pytest.importorskip("rlcore_model_openpi")
pytest.importorskip("rlcore_algo_ppo")


def test_steps_behind_a_success_are_masked(monkeypatch):
    """Two episodes of three chunks of two steps: one solved at its third step, one never."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from parts.reference_update import trim

    rewards = torch.zeros(3, 2, 2)
    rewards[1, 0] = 1.0  # it stays solved
    rewards[2, 0, 0] = 1.0
    truncated = torch.zeros(3, 2, 2, dtype=torch.bool)
    truncated[2, :, 1] = True
    blank = torch.zeros(3, 2)
    trimmed = trim(
        Trajectory(
            rewards=rewards,
            valid=torch.ones(3, 2, 2, dtype=torch.bool),
            terminated=torch.zeros(3, 2, 2, dtype=torch.bool),
            truncated=truncated,
            actions=torch.zeros(3, 2, 2, 1),
            logprobs=torch.zeros(3, 2, 2, 1),
            values=torch.zeros(3, 2, 1),
            bootstrap_values=torch.zeros(3, 2, 1),
            task=blank,
            trial=blank,
            replica=blank,
            group=blank,
            episode=blank,
            policy_version=blank,
            success=blank,
            sample_index=torch.arange(6).view(3, 2),
            inputs={},
            replay={},
        )
    )
    assert trimmed.rewards[:, 0].flatten().tolist() == [0, 0, 1, 0, 0, 0]
    assert trimmed.valid[:, 0].flatten().tolist() == [True, True, True, False, False, False]
    assert trimmed.terminated.nonzero().tolist() == [[1, 0, 0]]
    assert trimmed.truncated.nonzero().tolist() == [[2, 1, 1]]
    assert trimmed.sample_index.tolist() == [[0, 1], [2, 3], [-1, 5]]


@pytest.mark.long
def test_all_ways_learn_the_same_from_more_work(figures_of):
    figures = figures_of("ways", "--quick")
    ours, *alone, together = figures["costs"].values()
    # 4 episodes of 20 to 40 steps; in lockstep all go on to the time limit
    assert 4 * 20 <= ours["env_steps"] < 4 * 40
    assert [cost["env_steps"] for cost in alone] == [
        ours["env_steps"],
        ours["env_steps"],
        4 * 40,
        ours["env_steps"],
    ]
    assert together["env_steps"] == 4 * 40
    # a place of the batch is a chunk of 10 steps
    places = [cost["trained"] for cost in (ours, *alone, together)]
    assert places == [places[0], places[0], 4 * 4, places[0], places[0], 4 * 4]
    assert places[0] < 4 * 4
    assert all(cost["success"] == 1 for cost in figures["costs"].values())
    assert all(difference < 1e-4 for difference in figures["apart"].values())
    assert figures["ratios"]["cpu"]["rlcore"] == 1
