"""Answers of an algorithm against the contract: what tensor arithmetic would stretch or drop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.validation import checked_advantages, checked_loss
from rlcore_testing.conformance.trajectories import random_trajectory

from rlcore.contracts import metric
from rlcore.contracts.errors import AlgorithmError

T, N, C = 4, 5, 3
PLAYED = random_trajectory(chunks=T, columns=N, actions=C, entries=2)
RIGHT = Advantages(torch.zeros(T, N, 1), torch.zeros(T, N, 1), PLAYED.valid)


def refused(made: Any) -> str:
    with pytest.raises(AlgorithmError) as caught:
        checked_advantages("odd", PLAYED, made)
    assert "algorithm is at fault" in str(caught.value.hint)
    return caught.value.message


def test_what_the_contract_says_passes_untouched():
    per_action = replace(RIGHT, advantages=torch.zeros(T, N, C))
    without_critic = replace(RIGHT, returns=torch.zeros(T, N, 0))
    less = replace(RIGHT, valid=torch.zeros(T, N, C, dtype=torch.bool))
    for right in (RIGHT, per_action, without_critic, less):
        assert checked_advantages("fine", PLAYED, right) is right
    loss = torch.ones(()), {"a/b": metric.observation(1.0)}
    assert checked_loss("fine", loss, required="a/b") == loss


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"advantages": torch.zeros(N)},
            "advantages() gave as advantages a tensor float32 [5], expected a tensor float32 "
            "[4, 5, 1] or [4, 5, 3]",
        ),
        ({"advantages": torch.zeros(T, N, 1).double()}, "a tensor float64 [4, 5, 1], expected"),
        ({"advantages": None}, "advantages() gave as advantages a NoneType"),
        ({"returns": torch.zeros(T, N, 2)}, "expected a tensor float32 [4, 5, 1] or [4, 5, 0]"),
        ({"valid": torch.ones(T, N, C)}, "expected a tensor bool [4, 5, 3]"),
    ],
)
def test_advantages_of_another_type_or_shape_are_named(changes: dict[str, Any], said: str):
    message = refused(replace(RIGHT, **changes))
    assert message.startswith("algorithm odd: ") and said in message


@pytest.mark.parametrize("what", ["advantages", "returns"])
def test_numbers_that_are_not_finite_are_found(what: str):
    spoilt = torch.zeros(T, N, 1)
    spoilt[2, 3] = float("nan")
    assert refused(replace(RIGHT, **{what: spoilt})) == (
        f"algorithm odd: advantages() gave as {what} nan in chunk 2 of column 3, expected finite "
        "numbers"
    )


def test_nothing_is_trained_on_that_was_not_executed():
    idle = int((~PLAYED.valid).sum())
    assert idle
    message = refused(replace(RIGHT, valid=torch.ones(T, N, C, dtype=torch.bool)))
    assert f"true for {idle} actions that were never executed" in message
    assert "a tuple" in refused((RIGHT, RIGHT))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (torch.ones(()), "loss() gave a tensor float32 [], expected (loss, metrics)"),
        ((torch.ones(3), {}), "loss() gave as loss a tensor float32 [3], expected a"),
        ((1.0, {}), "loss() gave as loss a float"),
        ((torch.ones((), dtype=torch.int64), {}), "loss() gave as loss a tensor int64 []"),
        ((torch.ones(()), None), "loss() gave as metrics a NoneType"),
        (
            (torch.ones(()), {"time": metric.observation(1.0)}),
            "loss() gave as metric 'time' a field of every line of metrics.jsonl, expected another",
        ),
        (
            (torch.ones(()), {"env/success_once": metric.observation(1.0)}),
            "loss() gave as metric 'env/success_once' a field of every line of metrics.jsonl",
        ),
        ((torch.ones(()), {"a/b": 1.0}), "loss() gave as metric 'a/b' a float, expected a Metric"),
        (
            (torch.ones(()), {}),
            "metrics [], expected metrics with a/kl, because target_kl is set",
        ),
    ],
)
def test_a_loss_that_is_none_is_named(answer: Any, said: str):
    with pytest.raises(AlgorithmError) as caught:
        checked_loss("odd", answer, required="a/kl")
    assert said in caught.value.message


def test_a_loss_may_be_nan():
    """The optimizer refuses its step, and counts it."""
    loss, _ = checked_loss("fine", (torch.tensor(float("nan")), {}))
    assert loss.isnan()
