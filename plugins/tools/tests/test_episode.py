"""Addresses as users give them, and an episode as a table."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec
from rlcore_tools.episode import ROWS_SHOWN, split_of, trace_table

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import Episode
from rlcore.rollout.messages import Trace
from rlcore.training.play_episode import find_episode

SPEC = env_spec(ToyEnvConfig(env_type="toy", tasks=["reach-up", "reach-left"]))
EVALUATED = range(1000, 1010)


def test_a_task_by_name_or_number():
    for task in ("reach-left", "1", 1):
        assert find_episode(SPEC, task, 1003, 2, evaluated=EVALUATED) == Episode(1, 1003, 2)


@pytest.mark.parametrize("task", ["2", "-1", "", "reach", "Reach-Left"])
def test_a_task_that_the_env_lacks_is_refused(refused, task):
    with refused(ConfigError, "reach-up", "reach-left"):
        find_episode(SPEC, task, 1003, 0, evaluated=EVALUATED)


def test_trials_of_all_splits_and_no_others(refused):
    splits = {0: "train", 999: "train", 1000: "held-out", 1999: "held-out", 2000: "validation"}
    assert {trial: split_of(SPEC, trial) for trial in splits} == splits
    assert split_of(SPEC, 2999) == "validation"
    for trial in (-1, 3000):
        with refused(ConfigError, trial, "1000 to 1009"):
            find_episode(SPEC, "0", trial, 0, evaluated=EVALUATED)


def trace(decisions: int, values: int) -> Trace:
    """Decisions of 2 actions with 3 entries; the last one ends after its first action."""
    valid = np.ones((decisions, 2), bool)
    valid[-1, 1] = False
    ends = np.zeros((decisions, 2), bool)
    ends[-1, 0] = True
    return Trace(
        "push [red]",
        {
            "valid": valid,
            "rewards": np.where(ends, 0.5, 0.0).astype(np.float32),
            "values": np.full((decisions, values), 0.25, np.float32),
            "evaluated_logprobs": np.tile(np.float32([-1, -2, 0.5]), (decisions, 2, 1)),
            "terminated": ends,
            "truncated": np.zeros_like(ends),
            "success": ends.any(1),
        },
    )


def shown(episode: Trace) -> list[list[str]]:
    """The rows as cells."""
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(trace_table(episode, episode.sentence))
    lines = captured.get().splitlines()
    assert lines[0].strip() == "push [red]"
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if "│" in line]


def test_a_row_a_decision():
    # log-prob of a chunk of two actions: 2 (-1 - 2 + 0.5) = -5, of one -2.5
    assert shown(trace(2, 2)) == [
        ["0", "0-2", "0", "0.250", "-5.000", "-2.000", ""],
        ["1", "2-3", "0.5", "0.250", "-2.500", "-2.000", "terminated, success"],
    ]
    assert shown(trace(1, 0))[0][3] == "-"  # no critic


def test_the_middle_of_a_long_episode_is_left_out():
    rows = shown(trace(ROWS_SHOWN, 1))
    assert [row[0] for row in rows] == [str(t) for t in range(ROWS_SHOWN)]
    rows = shown(trace(ROWS_SHOWN + 5, 1))
    half = ROWS_SHOWN // 2
    first = [str(t) for t in range(half)]
    last = [str(t) for t in range(half + 5, ROWS_SHOWN + 5)]
    assert [row[0] for row in rows] == [*first, "...", *last]
