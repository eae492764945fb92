"""Record everything that env and policy exchange in selected trajectory columns, for inspection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain

import numpy as np
import torch

from rlcore.contracts.protocols import Inputs, Observation, Policy, PolicyOutput
from rlcore.rollout.messages import ChunkOutcome, EnvMessage, Trace


class Tracer:
    """Recorder of the traces of some columns, given by number; all others are ignored."""

    def __init__(self, columns: Collection[int]) -> None:
        self._columns = columns
        self._instructions: dict[int, str] = {}
        self._arrays: dict[int, dict[str, list[np.ndarray]]] = {}

    def add_decisions(
        self, policy: Policy, message: EnvMessage, inputs: Inputs, output: PolicyOutput
    ) -> None:
        """Add the decisions of a message's rows.

        Args:
            policy: evaluates the decisions, to record `evaluated_logprobs`.
            message: observations of R rows.
            inputs, output: what the policy prepared and returned for the same R rows.
        """
        observation = message.observation
        assert observation is not None
        for place, row in enumerate(message.rows):
            if row.column in self._columns:
                self._instructions[row.column] = observation["task_descriptions"][place]
                self._add(row.column, _decision(policy, observation, inputs, output, place))

    def add_outcome(self, outcome: ChunkOutcome) -> None:
        """Add the step results of the last decisions."""
        for row, number in enumerate(outcome.columns):
            if number in self._columns:
                self._add(number, outcome.of_row(row))

    def traces(self) -> dict[int, Trace]:
        """Return the traces, by column number."""
        return {
            number: Trace(
                self._instructions[number], {name: np.stack(rows) for name, rows in lists.items()}
            )
            for number, lists in self._arrays.items()
        }

    def _add(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        lists = self._arrays.setdefault(number, defaultdict(list))
        for name, array in arrays.items():
            lists[name].append(array)


def _decision(
    policy: Policy, observation: Observation, inputs: Inputs, output: PolicyOutput, row: int
) -> dict[str, np.ndarray]:
    """Return the arrays of one row's decision.

    The row is evaluated in a batch of one, so that the result does not depend on other rows.
    """
    weights = chain.from_iterable(policy.parameter_groups().values())
    device = next((weight.device for weight in weights), torch.device("cpu"))
    inputs_batch = {
        name: torch.from_numpy(np.array(array[[row]])).to(device) for name, array in inputs.items()
    }
    replay_batch = {name: tensor[[row]].to(device) for name, tensor in output.replay.items()}
    with torch.no_grad():
        evaluated = policy.evaluate(inputs_batch, replay_batch).logprobs
    return {
        **{f"cameras/{name}": frames[row] for name, frames in observation["cameras"].items()},
        "states": observation["states"][row],
        "elapsed": observation["elapsed"][row],
        **{f"inputs/{name}": array[row] for name, array in inputs.items()},
        "actions": output.actions[row],
        "logprobs": _array(output.logprobs[row]),
        "values": _array(output.values[row]),
        **{f"replay/{name}": _array(tensor[row]) for name, tensor in output.replay.items()},
        "evaluated_logprobs": _array(evaluated[0]),
    }


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor as a numpy array; bfloat16, which numpy lacks, becomes float32 losslessly."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
