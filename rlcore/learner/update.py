"""Update the policy once: take a trajectory, give improved weights and metrics.

    trajectory -> advantages -> samples -> epochs x minibatches x micro-batches -> optimizer steps

Knows no env, no model and no algorithm: the policy evaluates, the algorithm gives advantages and
the loss, the settings say how the batch is cut.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlcore.config.schema import ActorConfig, AlgorithmConfig
from rlcore.contracts import metric
from rlcore.contracts.errors import CheckpointError, ConfigError, TrainingError
from rlcore.contracts.metric import Metrics
from rlcore.contracts.minibatch import Advantages, Minibatch
from rlcore.contracts.protocols import Algorithm, Evaluation, Policy
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import agreement, collectives, dtensor, trained_parameters
from rlcore.learner.agreement import LOGPROB_GAP
from rlcore.learner.micro_batches import MicroBatches
from rlcore.learner.optim import PolicyOptimizer
from rlcore.learner.samples import Samples, make_samples, minibatches
from rlcore.rollout import columns
from rlcore.run_folder.learner_state import REFERENCE, Below
from rlcore.run_folder.metrics import MICRO_BATCH_SIZE, advantage_metrics, rollout_metrics
from rlcore.validation.algorithm import checked_advantages, checked_loss
from rlcore.validation.policy import checked_evaluation, checked_groups

APPROX_KL = "train/actor/approx_kl"
OPTIMIZER = "optimizer."  # how the names of its tensors begin
FILLER = torch.zeros(1, dtype=torch.int64)  # what a forward is made with that does not count


class Learner:
    """Trains a policy with an algorithm.

    Args:
        policy: its weights are changed in place.
        algorithm: advantages and loss.
        actor: minibatch sizes and optimizer settings.
        algorithm_config: settings all algorithms share.
        seed: root of the shuffle's keys.
        device: where the policy computes; None: where its parameters are.

    Attributes:
        remarks: what a user should know of the updates so far, by cause; may be empty.
    """

    def __init__(
        self,
        policy: Policy,
        algorithm: Algorithm,
        actor: ActorConfig,
        algorithm_config: AlgorithmConfig,
        *,
        seed: int,
        device: torch.device | None = None,
    ) -> None:
        self._policy = policy
        self._algorithm = algorithm
        self._actor = actor
        self._config = algorithm_config
        self._seed = seed
        self._groups = groups = checked_groups(policy)
        self._optimizer = PolicyOptimizer(groups, actor.optim)
        every = [parameter for group in groups.values() for parameter in group]
        self._device = device or every[0].device
        # ranks that divide parameters gather them together, so all make the same forwards
        self._lockstep = any(map(dtensor.divided, every))
        most = min(actor.micro_batch_size, actor.share_of_each(collectives.count()))
        self._micro = MicroBatches(most, lockstep=self._lockstep)
        self.remarks: dict[str, str] = {}
        self._trains_policy = True
        self._aimed = groups["policy"] + (groups["value"] if algorithm.needs.values else [])
        self._unreached = self._aimed  # by a gradient so far
        self._watched = None if algorithm.target_kl is None else APPROX_KL
        self._reference: list[Tensor] | None = None
        if algorithm.needs.reference_logprobs:
            self._reference = [dtensor.part(p.detach()).clone() for p in groups["policy"]]

    # -- one update ---------------------------------------------------------------------------

    def update(
        self,
        trajectory: Trajectory | None,
        update: int,
        lr_factors: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Train on a batch.

        Args:
            trajectory: what this rank gathered, None if nothing; the other ranks' is added here.
            update: number of updates done before this one; part of the shuffle's key.
            lr_factors: see :class:`PolicyOptimizer`; None: 1 for all.

        Returns:
            Metrics under their canonical names, the same on all ranks.

        Raises:
            TrainingError: no step could be made, as all gradients hold NaN or infinity.
            AlgorithmError, PolicyError: an answer that breaks the contract.
        """
        self._optimizer.lr_factors, size_before = lr_factors or {}, self._micro.size
        batch = collectives.whole_batch(trajectory)
        advantages = self._advantages(batch)
        samples = make_samples(batch, advantages, self._config)
        if self._config.recompute_logprobs:
            samples.old_logprobs = self._fitting_logprobs(samples)
        if self._reference is not None:
            with self._reference_weights():
                samples.reference_logprobs = self._fitting_logprobs(samples)
        skipped_before = self._optimizer.skipped_steps
        self._trains_policy = self._algorithm.trains_policy(update)
        weights_before = self._optimizer.sample()
        present = bool((batch.policy_version == update)[batch.valid.any(-1)].all())
        compared = present and self._algorithm.needs.acted_logprobs
        with self._frozen_policy(frozen=not self._trains_policy):
            metrics, steps, idle = self._epochs(samples, update, compared)
        if steps and self._trains_policy:
            said = agreement.without_gradient(self._policy, self._unreached, len(self._aimed))
            self.remarks["gradients"] = said
        skipped = self._optimizer.skipped_steps - skipped_before
        if skipped and not steps:
            raise TrainingError(
                f"update {update + 1} trained nothing: the gradient of each of its {skipped} steps "
                "holds NaN or infinity",
                hint="rlcore resume goes on from the last checkpoint, e.g. with a lower "
                "actor.optim.lr or actor.optim.clip_grad, or actor.model.precision=fp32",
            )
        shrunk, least = (
            collectives.most(size_before - self._micro.size),
            -collectives.most(-self._micro.size),
        )
        rates = self._optimizer.learning_rates()
        numbers = collectives.merge_metrics(metrics).numbers(steps)
        return {
            APPROX_KL: float("nan"),  # unless a step was made
            **numbers,
            **rollout_metrics(batch),
            **advantage_metrics(advantages),
            "train/actor/lr": rates["policy"] if self._trains_policy else 0.0,
            "train/critic/lr": rates["value"],
            "train/actor/optimizer_steps": float(steps),
            "train/actor/skipped_steps": float(skipped),
            "train/actor/zero_gradient_steps": float(idle),
            "train/actor/weights_moved": float(
                collectives.most(self._optimizer.moved_from(weights_before))
            ),
            "train/actor/trained_samples": float(samples.trained.sum()),
            "train/actor/trained_fraction": float(samples.trained.float().mean()),
            **({MICRO_BATCH_SIZE: float(least)} if shrunk else {}),
        }

    def _advantages(self, batch: Trajectory) -> Advantages:
        """Those of a batch, which stays as it is: the algorithm gets copies."""
        own: Any = columns.pad(batch, len(batch.valid))  # its mappings are no dicts
        own.inputs, own.replay = _Copies(batch.inputs), _Copies(batch.replay)
        return checked_advantages(self._config.name, batch, self._algorithm.advantages(own))

    def _epochs(self, samples: Samples, update: int, compared: bool) -> tuple[Metrics, int, int]:
        """All optimizer steps of an update: metrics, number of those that were applied, and of
        those among them whose gradient was zero.

        Args:
            compared: whether the first minibatch must have the log-probs that acting gave.
        """
        metrics, steps, idle = Metrics(), 0, 0
        totals = samples.weights.sums()
        for epoch in range(self._config.update_epoch):
            for places in minibatches(
                samples,
                self._actor.global_batch_size,
                seed=self._seed,
                update=update,
                epoch=epoch,
            ):
                batch = samples[places]
                batch.weights = batch.weights.as_whole_batch(totals)
                backward = partial(self._backward, samples, places, batch, compared)
                part = self._micro.fitting(backward, self._optimizer.zero_grad)
                if compared:  # alike on all ranks
                    gap = collectives.merge_metrics(part).numbers()[LOGPROB_GAP]
                    said = agreement.rough(self._policy, gap)
                    self.remarks["log-probs"] = self.remarks.get("log-probs") or said
                    compared = False
                if self._drifted(part):
                    self._optimizer.zero_grad()
                    if not steps:  # what was measured is all there is to say
                        metrics.merge(part)
                    return metrics, steps, idle
                collectives.add_gradients(self._trained_parameters())
                if not self._trains_policy:
                    self._drop_gradients()
                else:
                    self._unreached = [one for one in self._unreached if one.grad is None]
                report = self._optimizer.step()
                if report.applied:  # else the numbers are no numbers
                    metrics.merge(part)
                    metrics.add({"train/actor/grad_norm": metric.observed(report.grad_norm)})
                    steps += 1
                    idle += report.grad_norm == 0.0
        return metrics, steps, idle

    def _backward(
        self, samples: Samples, places: Tensor, minibatch: Minibatch, compared: bool
    ) -> Metrics:
        """Add the gradient of one minibatch, the samples at `places`, micro-batch by micro-batch;
        its metrics, where it is `compared` with how far log-probs are from those of acting.

        The weights of the minibatch are already divided by their sum over all ranks, so the
        losses of micro-batches and ranks simply add up.
        """
        metrics = Metrics()
        mine = samples.row[places] >= 0
        rows, batch = samples.row[places[mine]], minibatch[mine]
        for piece in self._micro.cut(len(rows)):
            counts = len(piece) > 0
            part = (batch[piece] if counts else minibatch[FILLER].blank()).to(self._device)
            new = self._evaluate(samples, rows[piece] if counts else FILLER)
            if self._trains_policy and self._algorithm.needs.acted_logprobs:
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
            if compared:
                gap = agreement.gap(now.logprobs, part.old_logprobs, part.valid)
                metrics.add({LOGPROB_GAP: gap})
            answer = self._algorithm.loss(now, part)
            loss, terms = checked_loss(self._config.name, answer, required=self._watched)
            if loss.requires_grad:  # not so where the policy is frozen and nothing has a value
                loss.backward()
            if counts:
                metrics.add({**terms, "train/actor/total_loss": metric.step_mean(loss)})
        self._settle()
        return metrics

    def _settle(self) -> None:
        """Free gathered blocks after forwards, before weights change."""
        if self._lockstep:
            from rlcore.learner.shard import settle  # takes a second to import

            settle(self._policy)

    def _drifted(self, minibatch: Metrics) -> bool:
        """Check whether the update ends here because the policy has moved far enough; the same on
        all ranks.

        NaN does not count as drift: the optimizer refuses such a step and counts it.
        """
        if self._algorithm.target_kl is None:
            return False
        return collectives.merge_metrics(minibatch).numbers()[APPROX_KL] > self._algorithm.target_kl

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
        assert self._reference is not None
        policy = self._optimizer.parameters("policy")
        for parameter, reference in zip(policy, self._reference, strict=True):
            held = dtensor.part(parameter)
            present = held.clone()
            held.copy_(reference)
            reference.copy_(present)

    @contextmanager
    def _frozen_policy(self, *, frozen: bool) -> Iterator[None]:
        """Train the value group alone; without gradients the policy's backward costs nothing. In
        lockstep it is made, as gathered parameters remember how they were gathered first.

        Raises:
            ConfigError: the policy has no value group to train.
        """
        if frozen and not self._optimizer.parameters("value"):
            raise ConfigError(
                "algorithm.critic_warmup_updates trains the critic alone, but this model has none",
                hint="set actor.model.add_value_head=true or algorithm.critic_warmup_updates=0",
            )
        without = frozen and not self._lockstep
        parameters = self._optimizer.parameters("policy") if without else []
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        try:
            for parameter in parameters:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in parameters:
                parameter.requires_grad_(True)

    def _drop_gradients(self) -> None:
        """Drop the policy's gradients while the value group is trained alone."""
        for parameter in self._optimizer.parameters("policy"):
            parameter.grad = None

    def _trained_parameters(self) -> list[torch.nn.Parameter]:
        groups = [self._optimizer.parameters(name) for name in ("policy", "value")]
        return [parameter for group in groups for parameter in group if parameter.requires_grad]

    def tensors(self) -> Iterator[Tensor]:
        """All that it holds besides the policy's weights."""
        yield from self._optimizer.tensors()
        yield from self._reference or []

    @property
    def share(self) -> tuple[int, int] | None:
        """Which part of how many :meth:`state_dict` gives here; None: another rank gives it."""
        return dtensor.share(parameter for group in self._groups.values() for parameter in group)

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """`{"tensors": {name: tensor}, "state": json-able}`: optimizer and reference weights, of
        sharded parameters the rows that are held here.

        With adapters also all trained parameters: a saved policy has them merged into its
        weights, from which they can't be recovered.
        """
        saved = self._optimizer.state_dict()
        tensors = {f"{OPTIMIZER}{name}": tensor for name, tensor in saved["tensors"].items()}
        pairs = zip(self._groups["policy"], self._reference or [], strict=False)
        for index, (parameter, tensor) in enumerate(pairs):
            if dtensor.written(parameter, tensor):
                tensors[f"{REFERENCE}{index}"] = tensor.cpu().clone()
        if self._actor.model.is_lora:
            tensors |= trained_parameters.kept(self._groups)
        return {"tensors": tensors, "state": {"optimizer": saved["state"]}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take up the state that :meth:`state_dict` gave.

        Raises:
            CheckpointError: it is of other parameters, or lacks the reference weights.
        """
        tensors = saved["tensors"]
        if self._actor.model.is_lora:
            trained_parameters.restore(self._groups, tensors)
        self._optimizer.load_state_dict(
            {"tensors": Below(tensors, OPTIMIZER), "state": saved["state"]["optimizer"]}
        )
        for index in range(len(self._reference or [])):
            name = f"{REFERENCE}{index}"
            if name not in tensors:
                raise CheckpointError(
                    f"the checkpoint lacks {name}: it was written without reference weights",
                    hint="set algorithm.kl_beta as it was, or start a new run from its weights",
                )
            assert self._reference is not None
            self._reference[index].copy_(
                dtensor.rows_for(tensors[name], self._optimizer.parameters("policy")[index])
            )


class _Copies(UserDict[str, Tensor]):
    """Tensors by name that are copied one at a time on access, as all copies may exceed memory."""

    def __getitem__(self, name: str) -> Tensor:
        return self.data[name].clone()


def _trained_where(counts: Tensor, x: Tensor) -> Tensor:
    """The same numbers, with gradients only where they count."""
    return torch.where(counts, x, x.detach())
