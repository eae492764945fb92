"""Train a policy to imitate its own successes and demonstrations."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rlcore.contracts.learning import Replay, RowKind, Step, Terms
from rlcore.contracts.protocols import Learning
from rlcore.contracts.rng import RowKeys


def imitation_steps(
    learning: Learning, *, steps: int, batch_size: int, demonstrations: float
) -> Iterator[Step]:
    """Yield supervised steps of the policy; none while the replay has no rows of a kind
    whose share is not 0.

    Args:
        steps: number of steps.
        batch_size: rows of a step.
        demonstrations: share of a batch that is drawn from demonstrations; the rest are own
            successes. If the replay has rows of only one of the kinds whose share is not 0, they
            fill the whole batch.
    """
    parts = mixture(
        learning.replay,
        batch_size,
        {"demonstrations": demonstrations, "successes": 1.0 - demonstrations},
    )
    learning.statistics["rollout/replay_successes"] = float(learning.replay.count("successes"))

    def loss(rows: Tensor, keys: RowKeys) -> Terms:
        return learning.imitation_loss(rows, keys), {}

    for _ in range(steps if parts else 0):
        yield learning.step(draw(learning, parts), loss, trains=["policy"])


def mixture(replay: Replay, size: int, shares: dict[RowKind, float]) -> dict[RowKind, int]:
    """Return how many rows of each of two kinds make a batch.

    If only one of the kinds with a share has rows in the replay, it fills the whole batch.

    Args:
        size: rows of the batch.
        shares: shares of the two kinds, which add up to 1.

    Returns:
        `{kind: rows}` without kinds of 0 rows; empty if no kind with a share has rows.
    """
    first, second = shares
    count = round(shares[first] * size)
    counts = {first: count, second: size - count}
    parts: dict[RowKind, int] = {
        kind: rows for kind, rows in counts.items() if rows and replay.count(kind)
    }
    return dict.fromkeys(parts, size) if len(parts) == 1 else parts


def draw(learning: Learning, parts: dict[RowKind, int]) -> Tensor:
    """Draw the rows of a batch, int64 `[B]`, one kind after the other; see :func:`mixture`."""
    return torch.cat([learning.sample(count, kind) for kind, count in parts.items()])
