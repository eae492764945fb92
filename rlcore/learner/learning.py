"""Provide an algorithm with the data and operations of an update. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.learning import RowKind, RowLoss, Step, Terms
from rlcore.contracts.metric import Metrics
from rlcore.contracts.protocols import Evaluation, Policy
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives
from rlcore.learner.micro_batches import MicroBatches
from rlcore.learner.reference import ReferenceWeights
from rlcore.learner.replay import ReplayStore
from rlcore.learner.rollout_rows import take_rows
from rlcore.validation.algorithm import checked_row_losses
from rlcore.validation.policy import check_evaluation

METRIC_NAMES = {"policy": "actor", "value": "critic"}
"""Names of parameter groups in metrics; other groups have the same name there."""
# row of a forward whose result is dropped, run because all ranks must run equally many forwards
_FILLER = torch.zeros(1, dtype=torch.int64)


@dataclass
class UpdateLearning:
    """The learning interface of one update; see :class:`rlcore.contracts.protocols.Learning`.

    Attributes:
        algorithm_name: name of the algorithm, for error messages.
        device: device on which the policy computes.
        micro: the learner's micro-batches, for forwards outside steps.
        lr_factors: factors that the optimizer uses and saves.
        reshard: frees the blocks that such forwards have gathered.
    """

    update: int
    policy: Policy
    env: EnvSpec
    networks: Mapping[str, nn.Module]
    target_networks: Mapping[str, nn.Module]
    replay: ReplayStore
    rollout: Trajectory
    reference: ReferenceWeights
    warnings: dict[str, str]
    algorithm_name: str
    total_updates: int | None
    seed: int
    batch_size: int
    device: torch.device
    micro: MicroBatches
    reshard: Callable[[], None]
    lr_factors: dict[str, float]
    statistics: dict[str, float] = field(default_factory=dict)
    _steps: int = 0

    def evaluate(self, rows: Tensor) -> Evaluation:
        evaluation = self.policy.evaluate(
            self._on_device(self.rollout.inputs, rows),
            self._on_device(self.rollout.replay, rows),
        )
        return check_evaluation(self.policy.spec, len(rows), evaluation)

    def _on_device(self, arrays: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
        return {name: take_rows(array, rows).to(self.device) for name, array in arrays.items()}

    def logprobs(self, rows: Tensor, *, reference: bool = False) -> Tensor:
        with self.reference.in_place() if reference else nullcontext():
            return self.micro.retry_on_oom(partial(self._logprobs, rows), self.reshard)

    @torch.no_grad()
    def _logprobs(self, rows: Tensor) -> Tensor:
        logprobs = torch.zeros(len(rows), *self.rollout.shape[2:])
        for piece in self.micro.split(len(rows)):
            piece_rows = rows[piece] if len(piece) else _FILLER
            logprobs[piece] = self.evaluate(piece_rows).logprobs.float().cpu()[: len(piece)]
        self.reshard()
        return logprobs

    def all_reduce(self, metrics: Metrics) -> dict[str, float]:
        return collectives.merge_metrics(metrics).values()

    def sample(self, count: int, among: RowKind = "all") -> Tensor:
        return self.replay.sample(count, among, (self.seed, "replay", self.update, self._steps))

    def step(self, rows: Tensor, loss: RowLoss, *, trains: Sequence[str]) -> Step:
        number = self._steps
        self._steps += 1
        local_rows = self.replay.local_rows(rows)
        name = METRIC_NAMES.get(trains[0], trains[0])
        return Step(
            trains=tuple(trains),
            samples=len(local_rows),
            loss=partial(self._loss_share, local_rows, len(rows), loss, name, number),
            name=name,
        )

    def imitation_loss(self, rows: Tensor, keys: RowKeys) -> Tensor:
        return self.policy.sft_loss(
            self.replay.policy_inputs(rows), *self.replay.action_targets(rows), keys
        )

    def _loss_share(
        self, local_rows: Tensor, total: int, loss: RowLoss, name: str, number: int, piece: Tensor
    ) -> Terms:
        """Return the share of a micro-batch in the mean loss over all ranks' rows, and metrics.

        Args:
            local_rows: rows of the step that this rank trains on.
            total: number of rows of the step on all ranks.
            number: number of the step within the update, part of the rows' keys.
            piece: indices into `local_rows`, of the micro-batch.
        """
        rows = local_rows[piece]
        keys = RowKeys(tuple((self.seed, self.update, number, row) for row in rows.tolist()))
        losses, terms = checked_row_losses(self.algorithm_name, loss(rows, keys), len(rows))
        counts: Any = torch.ones_like(losses, dtype=torch.bool)
        return losses.sum() / total, {**terms, f"train/{name}/loss": metric.mean(losses, counts)}
