"""Answers of an algorithm against the contract: what tensor arithmetic would stretch or drop."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.fixture
def refuse(refused: Callable[..., Any]) -> Callable[..., None]:
    def refuse(made: Any, *words: object) -> None:
        with refused(AlgorithmError, "algorithm odd", *words):
            checked_advantages("odd", PLAYED, made)

    return refuse


def test_answers_within_the_contract_pass_untouched():
    per_action = replace(RIGHT, advantages=torch.zeros(T, N, C))
    without_critic = replace(RIGHT, returns=torch.zeros(T, N, 0))
    less = replace(RIGHT, valid=torch.zeros(T, N, C, dtype=torch.bool))
    for right in (RIGHT, per_action, without_critic, less):
        assert checked_advantages("fine", PLAYED, right) is right
    loss = torch.ones(()), {"a/b": metric.observation(1.0)}
    assert checked_loss("fine", loss, required="a/b") == loss


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("advantages", torch.zeros(N), ["float32 [5]", "float32 [4, 5, 1]", "[4, 5, 3]"]),
        ("advantages", torch.zeros(T, N, 1).double(), ["float64 [4, 5, 1]"]),
        ("advantages", None, ["NoneType"]),
        ("returns", torch.zeros(T, N, 2), ["float32 [4, 5, 1]", "[4, 5, 0]"]),
        ("valid", torch.ones(T, N, C), ["bool [4, 5, 3]"]),
    ],
)
def test_advantages_of_another_type_or_shape_are_refused(
    refuse: Callable[..., None], name: str, value: Any, words: list[str]
):
    refuse(replace(RIGHT, **{name: value}), name, *words)


@pytest.mark.parametrize("name", ["advantages", "returns"])
def test_numbers_that_are_not_finite_are_refused(refuse: Callable[..., None], name: str):
    spoilt = torch.zeros(T, N, 1)
    spoilt[2, 3] = float("nan")
    refuse(replace(RIGHT, **{name: spoilt}), name, "nan in chunk 2 of column 3")


def test_training_on_actions_that_were_not_executed_is_refused(refuse: Callable[..., None]):
    idle = int((~PLAYED.valid).sum())
    assert idle
    refuse(replace(RIGHT, valid=torch.ones(T, N, C, dtype=torch.bool)), f"{idle} actions")
    refuse((RIGHT, RIGHT), "tuple")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (torch.ones(()), ["float32 []", "(loss, metrics)"]),
        ((torch.ones(3), {}), ["float32 [3]"]),
        ((1.0, {}), ["float"]),
        ((torch.ones((), dtype=torch.int64), {}), ["int64 []"]),
        ((torch.ones(()), None), ["metrics", "NoneType"]),
        ((torch.ones(()), {"time": metric.observation(1.0)}), ["'time'", "metrics.jsonl"]),
        (
            (torch.ones(()), {"env/success_once": metric.observation(1.0)}),
            ["'env/success_once'", "metrics.jsonl"],
        ),
        ((torch.ones(()), {"a/b": 1.0}), ["'a/b'", "float", "Metric"]),
        ((torch.ones(()), {}), ["a/kl", "target_kl"]),
    ],
)
def test_an_answer_that_is_no_loss_is_refused(
    answer: Any, words: list[str], refused: Callable[..., Any]
):
    with refused(AlgorithmError, "algorithm odd", *words):
        checked_loss("odd", answer, required="a/kl")


def test_a_loss_may_be_nan():
    """The optimizer refuses its step, and counts it."""
    loss, _ = checked_loss("fine", (torch.tensor(float("nan")), {}))
    assert loss.isnan()
