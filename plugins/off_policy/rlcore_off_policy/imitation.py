"""Let a policy imitate its own successes and the demonstrations it began with."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rlcore.contracts.learning import Among, Replay, Step, Terms
from rlcore.contracts.protocols import Learning
from rlcore.contracts.rng import RowKeys


def imitation_steps(
    learning: Learning, *, steps: int, batch_size: int, demonstrations: float
) -> Iterator[Step]:
    """Supervised steps; none while there is nothing to imitate.

    Args:
        demonstrations: share of a batch that is drawn from them; the rest are own successes, and
            where there is one kind only, all of it.
    """
    parts = mixture(
        learning.replay,
        batch_size,
        {"demonstrations": demonstrations, "successes": 1.0 - demonstrations},
    )
    learning.numbers["rollout/replay_successes"] = float(learning.replay.count("successes"))

    def loss(rows: Tensor, keys: RowKeys) -> Terms:
        return learning.imitation(rows, keys), {}

    for _ in range(steps if parts else 0):
        yield learning.step(draw(learning, parts), loss, trains=["policy"])


def mixture(replay: Replay, size: int, shares: dict[Among, float]) -> dict[Among, int]:
    """How many rows of each of two kinds make a batch; all of one where the other has none, none
    where neither has."""
    first, second = shares
    count = round(shares[first] * size)
    wanted = {first: count, second: size - count}
    parts: dict[Among, int] = {kind: n for kind, n in wanted.items() if n and replay.count(kind)}
    return dict.fromkeys(parts, size) if len(parts) == 1 else parts


def draw(learning: Learning, parts: dict[Among, int]) -> Tensor:
    """Rows of a batch, kind by kind."""
    return torch.cat([learning.draw(count, among) for among, count in parts.items()])
