"""Give an algorithm what it makes an update from. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.learning import Among, RowLoss, Step, Terms
from rlcore.contracts.protocols import OnPolicy, Policy
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.on_policy import RolloutLearning
from rlcore.learner.replay import ReplayStore
from rlcore.validation.algorithm import checked_row_losses

_NAMES = {"policy": "actor", "value": "critic"}
"""Of the metrics of a step, by the first group that it trains."""


@dataclass
class UpdateLearning:
    """See :class:`rlcore.contracts.protocols.Learning`.

    Attributes:
        named: the algorithm, for errors.
        seed: root of all keys.
        batch: the rollout, of all ranks.
        rollouts: cuts it into steps.
    """

    update: int
    policy: Policy
    env: EnvSpec
    networks: Mapping[str, nn.Module]
    lagged: Mapping[str, nn.Module]
    replay: ReplayStore
    named: str
    seed: int
    batch: Trajectory
    rollouts: RolloutLearning
    numbers: dict[str, float] = field(default_factory=dict)
    _steps: int = 0

    def rollout_steps(self, algorithm: OnPolicy) -> Iterator[Step]:
        return self.rollouts.steps(algorithm, self.batch, self.update, self.numbers)

    def draw(self, count: int, among: Among = "all") -> Tensor:
        return self.replay.draw(count, among, (self.seed, "replay", self.update, self._steps))

    def step(self, rows: Tensor, loss: RowLoss, *, trains: Sequence[str]) -> Step:
        number, self._steps = self._steps, self._steps + 1
        held, name = self.replay.held(rows), _NAMES.get(trains[0], trains[0])
        return Step(
            trains=tuple(trains),
            samples=len(held),
            loss=partial(self._share, held, len(rows), loss, name, number),
            name=name,
        )

    def imitation(self, rows: Tensor, keys: RowKeys) -> Tensor:
        return self.policy.sft_loss(
            self.replay.inputs(rows), *self.replay.action_targets(rows), keys
        )

    def _share(
        self, held: Tensor, total: int, loss: RowLoss, name: str, number: int, piece: Tensor
    ) -> Terms:
        """What some rows add to the mean over all."""
        rows = held[piece]
        keys = RowKeys(tuple((self.seed, self.update, number, row) for row in rows.tolist()))
        losses, terms = checked_row_losses(self.named, loss(rows, keys), len(rows))
        counts: Any = torch.ones_like(losses, dtype=torch.bool)
        return losses.sum() / total, {**terms, f"train/{name}/loss": metric.mean(losses, counts)}
