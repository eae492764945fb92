"""Answers of a policy against its spec: what tensor arithmetic would stretch over all rows."""

from __future__ import annotations

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


def test_what_the_contract_says_passes_untouched():
    for right in (output(), output(logprobs=torch.zeros(ROWS, 3, 2, dtype=torch.bfloat16))):
        assert check_output(SPEC, ROWS, right) is right
    for right in (evaluation(), evaluation(entropy=torch.zeros(ROWS, 3, 2))):
        assert check_evaluation(SPEC, ROWS, right) is right
    inputs = {"state": np.zeros((ROWS, 2), np.float32), "task": np.zeros(ROWS, np.int64)}
    assert check_inputs(SPEC, ROWS, inputs) == inputs


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"actions": np.zeros((ROWS, 1, 2), np.float32)}, "actions of act is float32 [4, 1, 2]"),
        ({"actions": np.zeros((ROWS, 3, 2))}, "expected float32 [4, 3, 2]"),
        ({"logprobs": torch.zeros(ROWS)}, "logprobs of act is a tensor float32 [4], expected a"),
        ({"logprobs": np.zeros((ROWS, 3, 2))}, "logprobs of act is float64 [4, 3, 2]"),
        ({"values": torch.zeros(ROWS)}, "values of act is a tensor float32 [4], expected a tensor"),
        ({"replay": {"drawn": torch.zeros(1, 5)}}, "replay['drawn'] of act is a tensor float32 [1"),
    ],
)
def test_decisions_of_other_shapes_are_named(changes: dict[str, Any], said: str):
    with pytest.raises(PolicyError) as caught:
        check_output(SPEC, ROWS, output(**changes))
    assert "model odd: " in caught.value.message and said in caught.value.message


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["actions", "logprobs", "values"])
def test_decisions_that_are_no_numbers_are_named(what: str, number: float):
    wrong = output()
    vars(wrong)[what][(2, *[0] * (vars(wrong)[what].ndim - 1))] = number
    with pytest.raises(PolicyError) as caught:
        check_output(SPEC, ROWS, wrong)
    assert caught.value.message == (
        f"model odd: {what} of act in row 2 is {number}, expected finite numbers"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"logprobs": torch.zeros(1, 3, 2)}, "logprobs of evaluate is a tensor float32 [1, 3, 2]"),
        ({"values": torch.zeros(ROWS)}, "values of evaluate is a tensor float32 [4], expected a"),
        ({"values": None}, "values of evaluate is a NoneType"),
        ({"entropy": torch.zeros(1, 3, 2)}, "entropy of evaluate is a tensor float32 [1, 3, 2]"),
    ],
)
def test_evaluations_of_other_shapes_are_named(changes: dict[str, Any], said: str):
    with pytest.raises(PolicyError) as caught:
        check_evaluation(SPEC, ROWS, evaluation(**changes))
    assert said in caught.value.message


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        {"state": np.zeros((1, 2), np.float32)},
        {"state": torch.zeros(ROWS, 2)},
        {"text": np.array(["a"] * ROWS)},
    ],
)
def test_inputs_that_are_no_numbers_by_row_are_named(inputs: Any):
    with pytest.raises(PolicyError, match="of prepare is"):
        check_inputs(SPEC, ROWS, inputs)


@pytest.mark.parametrize("answer", [None, 5, ()])
def test_other_things_than_answers_are_named(answer: Any):
    with pytest.raises(PolicyError, match="expected a PolicyOutput"):
        check_output(SPEC, ROWS, answer)
    with pytest.raises(PolicyError, match="expected an Evaluation"):
        check_evaluation(SPEC, ROWS, answer)
