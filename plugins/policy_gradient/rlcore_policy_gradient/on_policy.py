"""Make the steps of an on-policy algorithm: the minibatches of a rollout, with advantages and loss.

    trajectory -> advantages -> samples -> epochs x minibatches

Knows no env and no model: the policy evaluates, a subclass gives advantages and the loss, the
settings say how the batch is cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.learning import Step, Terms
from rlcore.contracts.metric import Metric, Metrics
from rlcore.contracts.protocols import Evaluation, Learning
from rlcore.contracts.specs import AlgorithmNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore_policy_gradient import agreement
from rlcore_policy_gradient.advantage import advantage_metrics
from rlcore_policy_gradient.agreement import LOGPROB_GAP
from rlcore_policy_gradient.minibatch import Advantages, Minibatch
from rlcore_policy_gradient.samples import Samples, make_samples, minibatches
from rlcore_policy_gradient.settings import PolicyGradientConfig
from rlcore_policy_gradient.validation import checked_advantages, checked_loss

APPROX_KL = "train/actor/approx_kl"
FILLER = torch.zeros(1, dtype=torch.int64)  # what a forward is made with that does not count


class OnPolicy(ABC):
    """An algorithm that learns from each rollout once; a subclass adds pure functions of tensors.

    target_kl: an update ends before a minibatch whose approximate KL to the policy that acted
        exceeds this; None: never.
    """

    needs: AlgorithmNeeds
    target_kl: float | None = None

    def __init__(self, config: PolicyGradientConfig) -> None:
        self._shared = config
        self._unreached: list[nn.Parameter] | None = None  # by a gradient so far

    @abstractmethod
    def advantages(self, trajectory: Trajectory) -> Advantages:
        """Advantages, value targets and what is trained on, for the whole batch, before any
        sharding. Finite numbers; nothing is trained on that was not executed."""

    @abstractmethod
    def loss(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """What B samples add to the loss of their minibatch, and metrics by canonical name.

        Args:
            now: what the policy says of them now, with gradients.
            batch: what was stored of them. Its weights add up to the minibatch's loss over
                micro-batches and ranks, so the loss is a weighted sum.

        Returns:
            The loss, a scalar with gradients, and `{name: Metric}`; where `target_kl` is set,
            `train/actor/approx_kl` is among them.
        """

    def trains_policy(self, update: int) -> bool:
        """Whether update number `update` (from 0) trains the policy, or the critic alone."""
        return True

    def updates(self, learning: Learning) -> Iterator[Step]:
        """The minibatches of the rollout, in as many epochs as the settings say.

        Raises:
            AlgorithmError, PolicyError: an answer that breaks the contract.
            ConfigError: the critic is to be trained alone, and there is none.
        """
        batch, config, update = learning.rollout, self._shared, learning.update
        groups, trains_policy = learning.policy.parameter_groups(), self.trains_policy(update)
        if not trains_policy and not groups["value"]:
            raise ConfigError(
                "algorithm.critic_warmup_updates trains the critic alone, but this model has none",
                hint="set actor.model.add_value_head=true or algorithm.critic_warmup_updates=0",
            )
        aimed = [*groups["policy"], *(groups["value"] if self.needs.values else [])]
        advantages = checked_advantages(config.name, batch, self.advantages(_copied(batch)))
        samples = make_samples(batch, advantages, config)
        if config.recompute_logprobs:
            samples.old_logprobs = _logprobs(learning, samples)
        if self.needs.reference_logprobs:
            samples.reference_logprobs = _logprobs(learning, samples, reference=True)
        learning.numbers |= advantage_metrics(advantages)
        learning.numbers["train/actor/trained_samples"] = float(samples.trained.sum())
        learning.numbers["train/actor/trained_fraction"] = float(samples.trained.float().mean())
        if not trains_policy:
            learning.numbers["train/actor/lr"] = 0.0
        present = bool((batch.policy_version == update)[batch.valid.any(-1)].all())
        compared = present and self.needs.acted_logprobs
        totals = samples.weights.sums()
        for epoch in range(config.update_epoch):
            for places in minibatches(
                samples, learning.batch_size, seed=learning.seed, update=update, epoch=epoch
            ):
                whole = samples[places]
                whole.weights = whole.weights.as_whole_batch(totals)
                mine = samples.row[places] >= 0
                asked: Any = {"trains_policy": trains_policy, "compared": compared}
                yield Step(
                    trains=("policy", "value") if trains_policy else ("value",),
                    samples=int(mine.sum()),
                    loss=partial(
                        self._share,
                        learning,
                        samples.row[places[mine]],
                        whole[mine],
                        whole[FILLER].blank(),
                        **asked,
                    ),
                    accept=partial(self._accept, learning, aimed, **asked),
                )
                compared = False

    def _share(
        self,
        learning: Learning,
        rows: Tensor,
        held: Minibatch,
        filler: Minibatch,
        piece: Tensor,
        *,
        trains_policy: bool,
        compared: bool,
    ) -> Terms:
        """What some samples of a minibatch add to its loss.

        The weights of the minibatch are already divided by their sum over all ranks, so the
        losses of micro-batches and ranks simply add up.

        Args:
            rows, held: of the rollout's inputs, and of the minibatch: all that this rank holds.
            filler: stands for none.
            compared: whether the metrics say how far log-probs are from those of acting.
        """
        counts = len(piece) > 0
        new = learning.evaluate(rows[piece] if counts else FILLER)
        part = (held[piece] if counts else filler).to(new.logprobs.device)
        if trains_policy and self.needs.acted_logprobs:
            agreement.require_gradient(learning.policy.spec, new.logprobs)
        # what was not executed trains nothing, whatever the loss makes of it
        now = Evaluation(
            _trained_where(part.valid[..., None], new.logprobs.float()),
            _trained_where(part.weights.value > 0, new.values.float()),
            # of each action, or of the chunk
            _trained_where(
                part.valid.unflatten(1, (new.entropy.shape[1], -1)).any(-1, keepdim=True),
                new.entropy.float(),
            ),
        )
        watched = None if self.target_kl is None else APPROX_KL
        loss, terms = checked_loss(self._shared.name, self.loss(now, part), required=watched)
        terms["train/actor/total_loss"] = metric.step_mean(loss)
        if compared:
            terms[LOGPROB_GAP] = agreement.gap(now.logprobs, part.old_logprobs, part.valid)
        return loss, terms

    def _accept(
        self,
        learning: Learning,
        aimed: list[nn.Parameter],
        metrics: Metrics,
        *,
        trains_policy: bool,
        compared: bool,
    ) -> bool:
        """Whether the policy has not moved too far for this minibatch; the same on all ranks.

        NaN does not count as drift: the optimizer refuses such a step and counts it.
        """
        policy, remarks = learning.policy, learning.remarks
        if compared:  # alike on all ranks
            gap = learning.over_all(metrics)[LOGPROB_GAP]
            said = agreement.rough(policy, gap)
            remarks["log-probs"] = remarks.get("log-probs") or said
        if self.target_kl is not None and learning.over_all(metrics)[APPROX_KL] > self.target_kl:
            return False
        if trains_policy:
            before = aimed if self._unreached is None else self._unreached
            left = [one for one in before if one.grad is None]
            if self._unreached is None or len(left) < len(before):  # else all is said
                remarks["gradients"] = agreement.without_gradient(policy, left, len(aimed))
            self._unreached = left
        return True


def _logprobs(learning: Learning, samples: Samples, *, reference: bool = False) -> Tensor:
    """Log-probs `[P, C, A]` of trained samples under the present or the reference weights, 0
    elsewhere."""
    result = torch.zeros_like(samples.old_logprobs)
    mine = samples.trained & (samples.row >= 0)
    result[mine] = learning.logprobs(samples.row[mine], reference=reference)
    return result


def _copied(batch: Trajectory) -> Trajectory:
    """A batch whose arrays may be written to."""
    arrays = {name: one.clone() for name, one in vars(batch).items() if isinstance(one, Tensor)}
    inputs: Any = _Copies(batch.inputs)  # no dicts
    replay: Any = _Copies(batch.replay)
    return replace(batch, **arrays, inputs=inputs, replay=replay)


class _Copies(UserDict[str, Tensor]):
    """Tensors by name that are copied one at a time on access, as all copies may exceed memory."""

    def __getitem__(self, name: str) -> Tensor:
        return self.data[name].clone()


def _trained_where(counts: Tensor, x: Tensor) -> Tensor:
    """The same numbers, with gradients only where they count."""
    return torch.where(counts, x, x.detach())
