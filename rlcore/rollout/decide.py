"""Make one batched decision of a policy, at a fixed forward batch where one is configured."""

from __future__ import annotations

import numpy as np
import torch

from rlcore.contracts.protocols import Inputs, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys

PAD_KEY = ("pad",)  # rows that only fill a batch; their output is thrown away
KERNEL_ROWS = 4
"""Rows a matrix kernel takes at once; measured with MKL, see docs/repeatability.md."""


def decide(
    policy: Policy,
    inputs: Inputs,
    keys: RowKeys,
    *,
    deterministic: bool,
    forward_batch: int | None,
) -> PolicyOutput:
    """`policy.act` on R rows, cut into forwards of `forward_batch` rows, the last one padded.

    With a fixed forward batch a row's result is bitwise independent of who shares the batch and
    of its place in it: one kernel choice, and one for all rows, as batches of several rows are
    padded to whole blocks of kernels. Without one, all rows go through in one forward.
    """
    rows = len(keys)
    if forward_batch is None or rows == forward_batch == padded_rows(rows):
        return policy.act(inputs, keys, deterministic=deterministic)
    parts: list[PolicyOutput] = []
    for start in range(0, rows, forward_batch):
        index = np.arange(start, min(start + forward_batch, rows))
        fill = np.full(padded_rows(forward_batch) - len(index), index[0])
        padded = np.concatenate([index, fill])
        output = policy.act(
            {name: array[padded] for name, array in inputs.items()},
            RowKeys(tuple(keys.keys[i] for i in index) + (PAD_KEY,) * len(fill)),
            deterministic=deterministic,
        )
        parts.append(_head(output, len(index)))
    return _join(parts)


def padded_rows(rows: int) -> int:
    """Rows of a forward with so many of its own. Kernels take rows in blocks and what is left
    over by other instructions, with other rounding. A single row is the same wherever it stands."""
    return rows if rows == 1 else -(-rows // KERNEL_ROWS) * KERNEL_ROWS


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
