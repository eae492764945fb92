"""One batched decision of a policy, at a fixed forward batch where one is asked for."""

from __future__ import annotations

import numpy as np
import torch

from rlcore.protocols import Inputs, Policy, PolicyOutput
from rlcore.rollout.rng import RowKeys

PAD_KEY = ("pad",)  # rows that only fill a batch; their output is thrown away


def decide(
    policy: Policy,
    inputs: Inputs,
    keys: RowKeys,
    *,
    deterministic: bool,
    forward_batch: int | None,
) -> PolicyOutput:
    """`policy.act` on R rows, cut and padded into forwards of exactly `forward_batch` rows.

    With a fixed forward batch a row's result is bitwise independent of who shares the batch and
    of its place in it: one kernel choice, and without a remainder (see the check of
    `rollout.forward_batch`) one for all rows. Without one, all rows go through in one forward.
    """
    rows = len(keys)
    if forward_batch is None or rows == forward_batch:
        return policy.act(inputs, keys, deterministic=deterministic)
    parts: list[PolicyOutput] = []
    for start in range(0, rows, forward_batch):
        index = np.arange(start, min(start + forward_batch, rows))
        fill = np.full(forward_batch - len(index), index[0])
        padded = np.concatenate([index, fill])
        output = policy.act(
            {name: array[padded] for name, array in inputs.items()},
            RowKeys(tuple(keys.keys[i] for i in index) + (PAD_KEY,) * len(fill)),
            deterministic=deterministic,
        )
        parts.append(_head(output, len(index)))
    return _join(parts)


def _head(output: PolicyOutput, rows: int) -> PolicyOutput:
    return PolicyOutput(
        output.actions[:rows],
        output.logprobs[:rows],
        output.values[:rows],
        {name: tensor[:rows] for name, tensor in output.replay.items()},
    )


def _join(parts: list[PolicyOutput]) -> PolicyOutput:
    return PolicyOutput(
        np.concatenate([part.actions for part in parts]),
        torch.cat([part.logprobs for part in parts]),
        torch.cat([part.values for part in parts]),
        {name: torch.cat([part.replay[name] for part in parts]) for name in parts[0].replay},
    )
