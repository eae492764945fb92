"""Answers of a policy are checked by its spec, before broadcasting could hide a wrong shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlcore.contracts.errors import PolicyError
from rlcore.contracts.protocols import Evaluation, PolicyOutput
from rlcore.contracts.specs import PolicySpec
from rlcore.validation.policy import check_evaluation, check_inputs, check_output

SPEC = PolicySpec("odd", 1, 2, 2, 3, 3, value_dim=1)  # A = 2, C = 3
ROWS = 4


def output(**changes: Any) -> PolicyOutput:
    right = PolicyOutput(
        np.zeros((ROWS, 3, 2), np.float32),
        torch.zeros(ROWS, 3, 2),
        torch.zeros(ROWS, 1),
        {"drawn": torch.zeros(ROWS, 5)},
    )
    return replace(right, **changes)


def evaluation(**changes: Any) -> Evaluation:
    right = Evaluation(torch.zeros(ROWS, 3, 2), torch.zeros(ROWS, 1), torch.zeros(ROWS, 1, 1))
    return replace(right, **changes)


def test_answers_that_keep_the_contract_pass_unchanged():
    for right in (output(), output(logprobs=torch.zeros(ROWS, 3, 2, dtype=torch.bfloat16))):
        assert check_output(SPEC, ROWS, right) is right
    for right in (evaluation(), evaluation(entropy=torch.zeros(ROWS, 3, 2))):
        assert check_evaluation(SPEC, ROWS, right) is right
    inputs = {"state": np.zeros((ROWS, 2), np.float32), "task": np.zeros(ROWS, np.int64)}
    assert check_inputs(SPEC, ROWS, inputs) == inputs


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({"actions": np.zeros((ROWS, 1, 2), np.float32)}, "[4, 1, 2]"),
        ({"actions": np.zeros((ROWS, 3, 2))}, "float64"),
        ({"logprobs": torch.zeros(ROWS)}, "[4]"),
        ({"logprobs": np.zeros((ROWS, 3, 2))}, "tensor"),
        ({"values": torch.zeros(ROWS)}, "[4]"),
        ({"replay": {"drawn": torch.zeros(1, 5)}}, "['drawn']"),
    ],
)
def test_decisions_of_other_shapes_are_named(
    refused: Callable[..., Any], changes: dict[str, Any], shape: str
):
    with refused(PolicyError, "model odd", f"{next(iter(changes))}", "act", shape):
        check_output(SPEC, ROWS, output(**changes))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["actions", "logprobs", "values"])
def test_decisions_that_are_not_finite_are_named(
    refused: Callable[..., Any], field: str, number: float
):
    wrong = output()
    values = vars(wrong)[field]
    values[(2, *[0] * (values.ndim - 1))] = number
    with refused(PolicyError, "model odd", field, "row 2", number):
        check_output(SPEC, ROWS, wrong)


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({"logprobs": torch.zeros(1, 3, 2)}, "[1, 3, 2]"),
        ({"values": torch.zeros(ROWS)}, "[4]"),
        ({"values": None}, "NoneType"),
        ({"entropy": torch.zeros(1, 3, 2)}, "[1, 3, 2]"),
    ],
)
def test_evaluations_of_other_shapes_are_named(
    refused: Callable[..., Any], changes: dict[str, Any], shape: str
):
    with refused(PolicyError, next(iter(changes)), "evaluate", shape):
        check_evaluation(SPEC, ROWS, evaluation(**changes))


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        {"state": np.zeros((1, 2), np.float32)},
        {"state": torch.zeros(ROWS, 2)},
        {"text": np.array(["a"] * ROWS)},
    ],
)
def test_inputs_that_are_no_numbers_by_row_are_named(refused: Callable[..., Any], inputs: Any):
    with refused(PolicyError, "prepare"):
        check_inputs(SPEC, ROWS, inputs)


@pytest.mark.parametrize("answer", [None, 5, ()])
def test_answers_of_another_type_are_named(refused: Callable[..., Any], answer: Any):
    with refused(PolicyError, "PolicyOutput"):
        check_output(SPEC, ROWS, answer)
    with refused(PolicyError, "Evaluation"):
        check_evaluation(SPEC, ROWS, answer)
