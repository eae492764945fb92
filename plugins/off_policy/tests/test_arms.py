"""Values that training episodes draw, against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from rlcore_off_policy.arms import UNUSED, Arms, episodes_by_arm, slots, success

from rlcore.contracts.rng import DecisionKey, RowKeys

TASKS = ("a", "b")


def keys(phase: str, decision: int, task=0, tasks=TASKS) -> RowKeys:
    return RowKeys(
        tuple(DecisionKey(0, phase, 2, task, trial, 0, decision) for trial in range(400)), tasks
    )


def played():
    """Two chunks of five episodes. Task 0: a success at arm 1, a failure at arm 0, and one in which
    the value had no effect; task 1: a success that this rank does not hold, a failure at arm 1."""
    flags = torch.zeros(2, 5, 1, dtype=torch.bool)
    terminated, truncated = flags.clone(), flags.clone()
    terminated[1, 0] = terminated[0, 2] = True
    truncated[1, 1] = truncated[1, 3] = truncated[1, 4] = True
    valid = ~flags
    valid[1, 2] = False
    return SimpleNamespace(
        rollout=SimpleNamespace(
            valid=valid, terminated=terminated, truncated=truncated, success=terminated[..., 0],
            task=torch.tensor([0, 0, 1, 1, 0]).expand(2, 5),
            sample_index=torch.tensor([[0, 2, -1, 4, 6], [1, 3, -1, 5, 7]]),
            replay={"arm": torch.tensor([1, 1, 0, 0, 1, 1, UNUSED, UNUSED])},
        ),
        env=SimpleNamespace(tasks=TASKS), statistics={},
        all_reduce=lambda metrics: metrics.values(),
    )  # fmt: skip


def test_an_episode_keeps_its_value_and_a_task_has_chances_of_its_own():
    made = Arms([0.0, 1.0], "arm")
    made.chances[slots(TASKS)] = torch.tensor([[0.25, 0.75], [1.0, 0.0]]).double()
    first, training = made.draw(keys("train", 0), TASKS)
    assert training.all() and torch.equal(first, made.draw(keys("train", 7), TASKS)[0])
    assert float(first.float().mean()) == pytest.approx(0.75, abs=0.07)
    assert not made.draw(keys("train", 0, task=1), TASKS)[0].any()


def test_other_rows_get_the_value_that_succeeded_most_at_their_task():
    made = Arms([0.0, 1.0], "arm")
    rows = (*keys("eval", 0, 0).keys[:1], *keys("eval", 0, 1).keys[:1])
    # without any episode the first one among equals
    assert made.draw(RowKeys(rows, TASKS), TASKS)[0].tolist() == [0] * 2
    # of "b": 4/8 and 3/4
    made.counts[slots(["b"])] = torch.tensor([[6.0, 3.0], [2.0, 2.0]]).double()
    number, training = made.draw(RowKeys(rows, TASKS), TASKS)
    assert number.tolist() == [0, 1] and not training.any()
    # where that task alone is played, its number is 0
    assert made.draw(RowKeys(rows[:1], ("b",)), TASKS)[0].tolist() == [1]
    # tasks that were not trained have no counts, whatever their numbers
    assert made.draw(RowKeys(rows, ("c", "d")), TASKS)[0].tolist() == [0] * 2


def test_rows_that_name_no_task_get_the_value_that_succeeded_most_of_all():
    made = Arms([0.0, 1.0], "arm")
    made.counts[slots(TASKS)] = torch.tensor(
        [[[2.0, 2.0], [2.0, 1.0]], [[6.0, 0.0], [6.0, 5.0]]]
    ).double()
    # 4 means of 2 tasks: (1 + 1) / (4 + 2) and (3 + 1) / (4 + 2)
    assert made.draw(RowKeys((("pad",), (1, "sample", 3))), TASKS)[0].tolist() == [1, 1]
    assert made.draw(RowKeys((("pad",),)), ("a",))[0].tolist() == [0]


def test_success_by_laplace():
    counts = torch.tensor([[3.0, 2], [3, 0], [0, 0]])
    assert success(counts).tolist() == pytest.approx([3 / 5, 1 / 5, 1 / 2])


def test_episodes_are_counted_where_they_end():
    # task 0: one failure at arm 0, one success at 1; task 1: one failure at arm 1
    expected = [[[1, 0], [1, 1]], [[0, 0], [1, 0]]]
    assert episodes_by_arm(played(), "arm", 2).tolist() == expected


def test_a_task_that_was_not_played_keeps_what_it_learned():
    made, seen = Arms([0.0, 0.5], "arm"), played()
    made.learn(seen)
    chances, counts = made.chances[slots(["b"])].clone(), made.counts[slots(["b"])].clone()
    seen.rollout.task = torch.zeros_like(seen.rollout.task)
    made.learn(seen)
    assert torch.equal(made.chances[slots(["b"])], chances)
    assert torch.equal(made.counts[slots(["b"])], counts)


def test_values_that_succeed_are_drawn_more_often():
    made, seen = Arms([0.0, 0.5], "arm"), played()
    made.learn(seen)
    # task 0: 1/3 and 2/3, which are their shares; task 1: 1/2 and 1/3, shares 3/5 and 2/5: half
    # way to it from 1/2 each
    expected = [5 / 12, 7 / 12, 11 / 20, 9 / 20]
    assert made.chances[slots(TASKS)].flatten().tolist() == pytest.approx(expected)
    assert seen.statistics["train/arm/drawn"] == pytest.approx(0.5 * (7 / 12 + 9 / 20) / 2)
    made.learn(seen)
    assert made.counts[slots(TASKS)].tolist() == [[[1.5, 0.0], [1.5, 1.5]], [[0, 0], [1.5, 0.0]]]
    # task 0: 1 / 3.5 and 2.5 / 3.5, so 0.5; task 1: 1/2 and 1 / 3.5, so 0
    assert seen.statistics["train/arm/best"] == 0.25
