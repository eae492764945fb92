"""Run one batched decision of a policy, in forwards of a fixed size if one is configured."""

from __future__ import annotations

import numpy as np
import torch

from rlcore.contracts.protocols import Inputs, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys

PAD_KEY = ("pad",)  # key of rows that only pad a batch; their output is discarded
KERNEL_ROWS = 4
"""Number of rows that a matrix kernel processes at once, as measured with MKL; see
docs/repeatability.md."""


def decide(
    policy: Policy,
    inputs: Inputs,
    keys: RowKeys,
    *,
    deterministic: bool,
    forward_batch: int | None,
) -> PolicyOutput:
    """Call `policy.act` on R rows, in forwards of `forward_batch` rows.

    With a fixed forward batch, the result of a row is bitwise independent of the other rows and of
    its position in the batch: all forwards have the same size, so the library chooses the same
    kernels, and :func:`padded_rows` makes these process all rows in the same way. The last forward
    is padded.

    Args:
        forward_batch: rows per forward, before padding to whole kernel blocks; None: all rows in
            one forward.
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
            RowKeys(tuple(keys.keys[i] for i in index) + (PAD_KEY,) * len(fill), keys.tasks),
            deterministic=deterministic,
        )
        parts.append(_head(output, len(index)))
    return _join(parts)


def padded_rows(rows: int) -> int:
    """Return the size of a forward on `rows` rows: the next multiple of :data:`KERNEL_ROWS`.

    Kernels process whole blocks of rows, and remaining rows with other instructions, which round
    differently. A single row is not padded, because its position cannot vary.
    """
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
