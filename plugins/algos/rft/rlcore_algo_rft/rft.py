"""RFT: the policy imitates its own successful episodes, and the demonstrations it began with."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rlcore.contracts.learning import Among, Replay, Step, Terms
from rlcore.contracts.protocols import Learning
from rlcore.contracts.rng import RowKeys
from rlcore_algo_rft.settings import RFTConfig, needs


class RFT:
    """Rejection-sampling fine-tuning, or filtered behaviour cloning (Yuan et al. 2023, arXiv
    2308.01825, there of texts): what succeeded is data like demonstrations are."""

    def __init__(self, config: RFTConfig) -> None:
        self._config = config
        self.needs = needs(config)

    def updates(self, learning: Learning) -> Iterator[Step]:
        """`steps` supervised steps; none while there is nothing to imitate."""
        parts = self._parts(learning.replay)
        learning.numbers["rollout/replay_successes"] = float(learning.replay.count("successes"))

        def loss(rows: Tensor, keys: RowKeys) -> Terms:
            return learning.imitation(rows, keys), {}

        for _ in range(self._config.steps if parts else 0):
            rows = [learning.draw(count, among) for among, count in parts.items()]
            yield learning.step(torch.cat(rows), loss, trains=["policy"])

    def _parts(self, replay: Replay) -> dict[Among, int]:
        """Of what a batch is made: rows of each kind; empty where there are none of either."""
        size = self._config.batch_size
        shown = round(self._config.demonstrations * size)
        wanted: dict[Among, int] = {"demonstrations": shown, "successes": size - shown}
        parts = {among: n for among, n in wanted.items() if n and replay.count(among)}
        if len(parts) == 1:
            return dict.fromkeys(parts, size)
        return parts
