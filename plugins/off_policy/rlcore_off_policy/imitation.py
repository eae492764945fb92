"""Train a policy to imitate its own successes and demonstrations."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from rlcore.contracts.learning import Step, Terms
from rlcore.contracts.protocols import Learning
from rlcore.contracts.replay_batches import draw, imitation_mixture
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
    parts = imitation_mixture(learning, batch_size, demonstrations)

    def loss(rows: Tensor, keys: RowKeys) -> Terms:
        return learning.imitation_loss(rows, keys), {}

    for _ in range(steps if parts else 0):
        yield learning.step(draw(learning, parts), loss, trains=["policy"])
