"""Make the steps of an on-policy algorithm: the minibatches of a rollout, with advantages and loss.

    trajectory -> advantages -> samples -> epochs x minibatches

Knows no env, no model and no algorithm: the policy evaluates, the algorithm gives advantages and
the loss, the settings say how the batch is cut.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.config.schema import ActorConfig, AlgorithmConfig
from rlcore.contracts import metric
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.learning import Step, Terms
from rlcore.contracts.metric import Metrics
from rlcore.contracts.minibatch import Advantages, Minibatch
from rlcore.contracts.protocols import Evaluation, OnPolicy, Policy
from rlcore.contracts.specs import AlgorithmNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import agreement, collectives, dtensor
from rlcore.learner.agreement import LOGPROB_GAP
from rlcore.learner.micro_batches import MicroBatches
from rlcore.learner.samples import Samples, make_samples, minibatches
from rlcore.rollout import columns
from rlcore.run_folder.learner_state import REFERENCE, Rows
from rlcore.run_folder.metrics import advantage_metrics
from rlcore.validation.algorithm import checked_advantages, checked_loss
from rlcore.validation.policy import checked_evaluation

APPROX_KL = "train/actor/approx_kl"
FILLER = torch.zeros(1, dtype=torch.int64)  # what a forward is made with that does not count


class RolloutLearning:
    """Cuts rollouts into steps.

    Args:
        policy, groups: its weights, `{"policy": [...], "value": [...]}`.
        needs: of the algorithm.
        actor: minibatch sizes.
        config: settings all algorithms share.
        seed: root of the shuffle's keys.
        device: where the policy computes.
        micro: the learner's cuts, for forwards outside steps.
        settle: frees what such forwards gathered.

    Attributes:
        remarks: what a user should know of the updates so far, by cause; may be empty.
        reference: the weights that training began with, where the algorithm needs them.
    """

    def __init__(
        self,
        policy: Policy,
        groups: Mapping[str, Sequence[nn.Parameter]],
        needs: AlgorithmNeeds,
        actor: ActorConfig,
        config: AlgorithmConfig,
        *,
        seed: int,
        device: torch.device,
        micro: MicroBatches,
        settle: Callable[[], None],
    ) -> None:
        self._policy, self._groups, self._needs = policy, groups, needs
        self._actor, self._config, self._seed = actor, config, seed
        self._device, self._micro, self._settle = device, micro, settle
        self.remarks: dict[str, str] = {}
        self._aimed = [*groups["policy"], *(groups["value"] if needs.values else [])]
        self._unreached = self._aimed  # by a gradient so far
        self.reference: list[Tensor] | None = None
        if needs.reference_logprobs:
            self.reference = [dtensor.part(p.detach()).clone() for p in groups["policy"]]

    def steps(
        self, algorithm: OnPolicy, batch: Trajectory, update: int, numbers: dict[str, float]
    ) -> Iterator[Step]:
        """The steps of an update.

        Args:
            batch: the whole batch, with the inputs that this rank holds.
            update: number of updates done before this one; part of the shuffle's key.
            numbers: metrics of the batch are added here.

        Raises:
            AlgorithmError, PolicyError: an answer that breaks the contract.
            ConfigError: the critic is to be trained alone, and there is none.
        """
        trains_policy = algorithm.trains_policy(update)
        if not trains_policy and not self._groups["value"]:
            raise ConfigError(
                "algorithm.critic_warmup_updates trains the critic alone, but this model has none",
                hint="set actor.model.add_value_head=true or algorithm.critic_warmup_updates=0",
            )
        advantages = self._advantages(algorithm, batch)
        samples = make_samples(batch, advantages, self._config)
        if self._config.recompute_logprobs:
            samples.old_logprobs = self._fitting_logprobs(samples)
        if self.reference is not None:
            with self._reference_weights():
                samples.reference_logprobs = self._fitting_logprobs(samples)
        numbers |= advantage_metrics(advantages)
        numbers["train/actor/trained_samples"] = float(samples.trained.sum())
        numbers["train/actor/trained_fraction"] = float(samples.trained.float().mean())
        if not trains_policy:
            numbers["train/actor/lr"] = 0.0
        present = bool((batch.policy_version == update)[batch.valid.any(-1)].all())
        compared = present and self._needs.acted_logprobs
        totals = samples.weights.sums()
        for epoch in range(self._config.update_epoch):
            for places in minibatches(
                samples,
                self._actor.global_batch_size,
                seed=self._seed,
                update=update,
                epoch=epoch,
            ):
                whole = samples[places]
                whole.weights = whole.weights.as_whole_batch(totals)
                mine = samples.row[places] >= 0
                yield Step(
                    trains=("policy", "value") if trains_policy else ("value",),
                    samples=int(mine.sum()),
                    loss=partial(
                        self._loss,
                        algorithm,
                        samples,
                        samples.row[places[mine]],
                        whole[mine],
                        whole[FILLER].blank(),
                        trains_policy=trains_policy,
                        compared=compared,
                    ),
                    accept=partial(
                        self._accept, algorithm, trains_policy=trains_policy, compared=compared
                    ),
                )
                compared = False

    def _advantages(self, algorithm: OnPolicy, batch: Trajectory) -> Advantages:
        """Those of a batch, which stays as it is: the algorithm gets copies."""
        own: Any = columns.pad(batch, len(batch.valid))  # its mappings are no dicts
        own.inputs, own.replay = _Copies(batch.inputs), _Copies(batch.replay)
        return checked_advantages(self._config.name, batch, algorithm.advantages(own))

    def _loss(
        self,
        algorithm: OnPolicy,
        samples: Samples,
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
            rows, held: of `inputs` and `replay`, and of the minibatch: all that this rank holds.
            filler: stands for none.
            compared: whether the metrics say how far log-probs are from those of acting.
        """
        counts = len(piece) > 0
        part = (held[piece] if counts else filler).to(self._device)
        new = self._evaluate(samples, rows[piece] if counts else FILLER)
        if trains_policy and self._needs.acted_logprobs:
            agreement.require_gradient(self._policy.spec, new.logprobs)
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
        watched = None if algorithm.target_kl is None else APPROX_KL
        answer = algorithm.loss(now, part)
        loss, terms = checked_loss(self._config.name, answer, required=watched)
        terms["train/actor/total_loss"] = metric.step_mean(loss)
        if compared:
            terms[LOGPROB_GAP] = agreement.gap(now.logprobs, part.old_logprobs, part.valid)
        return loss, terms

    def _accept(
        self, algorithm: OnPolicy, metrics: Metrics, *, trains_policy: bool, compared: bool
    ) -> bool:
        """Whether the policy has not moved too far for this minibatch; the same on all ranks.

        NaN does not count as drift: the optimizer refuses such a step and counts it.
        """
        if compared:  # alike on all ranks
            gap = collectives.merge_metrics(metrics).numbers()[LOGPROB_GAP]
            said = agreement.rough(self._policy, gap)
            self.remarks["log-probs"] = self.remarks.get("log-probs") or said
        if algorithm.target_kl is not None:
            moved = collectives.merge_metrics(metrics).numbers()[APPROX_KL]
            if moved > algorithm.target_kl:
                return False
        if trains_policy:
            self._unreached = [one for one in self._unreached if one.grad is None]
            said = agreement.without_gradient(self._policy, self._unreached, len(self._aimed))
            self.remarks["gradients"] = said
        return True

    # -- evaluations --------------------------------------------------------------------------

    def _evaluate(self, samples: Samples, rows: Tensor) -> Evaluation:
        """Evaluate stored decisions `rows` with the current policy."""
        evaluation = self._policy.evaluate(
            {name: array[rows].to(self._device) for name, array in samples.inputs.items()},
            {name: array[rows].to(self._device) for name, array in samples.replay.items()},
        )
        return checked_evaluation(self._policy.spec, len(rows), evaluation)

    def _fitting_logprobs(self, samples: Samples) -> Tensor:
        return self._micro.fitting(partial(self._logprobs, samples), self._settle)

    @torch.no_grad()
    def _logprobs(self, samples: Samples) -> Tensor:
        """Log-probs `[P, C, A]` of trained samples under the present weights, 0 elsewhere."""
        result = torch.zeros_like(samples.old_logprobs)
        mine = (samples.trained & (samples.row >= 0)).nonzero().squeeze(1)
        for piece in self._micro.cut(len(mine)):
            places = mine[piece]
            evaluation = self._evaluate(samples, samples.row[places] if len(places) else FILLER)
            result[places] = evaluation.logprobs.float().cpu()[: len(places)]
        self._settle()
        return result

    # -- reference weights --------------------------------------------------------------------

    @contextmanager
    def _reference_weights(self) -> Iterator[None]:
        """The policy with the weights it had when training began."""
        try:
            self._exchange_reference()
            yield
        finally:
            self._exchange_reference()

    @torch.no_grad()
    def _exchange_reference(self) -> None:
        """Let present and reference weights change places, in place and one by one: what gathers
        sharded parameters looks at their memory."""
        assert self.reference is not None
        for parameter, reference in zip(self._groups["policy"], self.reference, strict=True):
            held = dtensor.part(parameter)
            present = held.clone()
            held.copy_(reference)
            reference.copy_(present)

    def state_dict(self) -> dict[str, Tensor]:
        """Reference weights by name; of sharded parameters the rows that are held here."""
        pairs = zip(self._groups["policy"], self.reference or [], strict=False)
        return {
            f"{REFERENCE}{index}": tensor.cpu().clone()
            for index, (parameter, tensor) in enumerate(pairs)
            if dtensor.written(parameter, tensor)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor | Rows]) -> None:
        """Take up the state that :meth:`state_dict` gave.

        Raises:
            CheckpointError: there are no reference weights, and the algorithm needs them.
        """
        for index, reference in enumerate(self.reference or []):
            name = f"{REFERENCE}{index}"
            if name not in tensors:
                raise CheckpointError(
                    f"the checkpoint lacks {name}: it was written without reference weights",
                    hint="set algorithm.kl_beta as it was, or start a new run from its weights",
                )
            reference.copy_(dtensor.rows_for(tensors[name], self._groups["policy"][index]))


class _Copies(UserDict[str, Tensor]):
    """Tensors by name that are copied one at a time on access, as all copies may exceed memory."""

    def __getitem__(self, name: str) -> Tensor:
        return self.data[name].clone()


def _trained_where(counts: Tensor, x: Tensor) -> Tensor:
    """The same numbers, with gradients only where they count."""
    return torch.where(counts, x, x.detach())
