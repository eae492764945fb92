"""Update the policy once: take a trajectory, make the steps that the algorithm asks for.

    trajectory -> replay -> algorithm.updates --Step--> micro-batches -> ranks -> optimizer steps

Knows no env, no model and no algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rlcore.config.schema import ActorConfig, AlgorithmConfig
from rlcore.contracts import metric
from rlcore.contracts.errors import AlgorithmError, TrainingError
from rlcore.contracts.learning import Step
from rlcore.contracts.metric import Metric, Metrics
from rlcore.contracts.protocols import Algorithm, OwnsNetworks, Policy
from rlcore.contracts.specs import EnvSpec, ReplayNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner import collectives, dtensor, trained_parameters
from rlcore.learner.acting import ActingPolicy, without_acting_networks
from rlcore.learner.learning import METRIC_NAMES, UpdateLearning
from rlcore.learner.micro_batches import MicroBatches
from rlcore.learner.networks import Networks, make_networks
from rlcore.learner.optim import PolicyOptimizer, StepReport
from rlcore.learner.reference import ReferenceWeights
from rlcore.learner.replay import ReplayStore
from rlcore.numerics.batch_invariance import random_observation
from rlcore.run_folder.metrics import MICRO_BATCH_SIZE, rollout_metrics
from rlcore.run_folder.replay_files import REPLAY
from rlcore.validation.policy import checked_groups

OPTIMIZER = "optimizer."  # how the names of its tensors begin


@dataclass
class _StepCounts:
    """Count the steps of an update.

    Attributes:
        made, skipped: number of steps by the groups that they train. A step is skipped where a
            gradient holds NaN or infinity; the same on all ranks, which add their gradients up.
        zero_gradient: of those made, how many had a gradient of 0.
        samples: of this rank, in the steps that were made.
    """

    made: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    zero_gradient: int = 0
    samples: int = 0


class Learner:
    """Trains a policy with an algorithm.

    Args:
        policy: its weights are changed in place; those of networks that act with it too.
        algorithm: what the steps of an update are.
        actor: minibatch sizes and optimizer settings.
        algorithm_config: settings all algorithms share.
        seed: root of all keys.
        device: where the policy computes; None: where its parameters are.
        env: what the policy sees; may be left out where the algorithm has neither networks nor a
            replay.
        keeps: the replay, where the algorithm has none of its own.

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
        env: EnvSpec | None = None,
        keeps: ReplayNeeds | None = None,
    ) -> None:
        self._policy = without_acting_networks(policy)
        self._acting = policy if isinstance(policy, ActingPolicy) else None
        self._algorithm = algorithm
        self._actor = actor
        self._config = algorithm_config
        self._seed = seed
        groups, needs = checked_groups(self._policy), algorithm.needs
        every = [parameter for group in groups.values() for parameter in group]
        self._device = device or every[0].device
        if needs.frozen:
            groups = {name: [] for name in groups}
        self._networks = Networks({}, ())
        if needs.networks:
            assert env is not None  # as a worker has one
            inputs = self._policy.prepare(random_observation(env, 1))
            owner, named = cast(OwnsNetworks, algorithm), algorithm_config.name
            spec = self._policy.spec
            self._networks = make_networks(owner, spec, inputs, named=named, seed=seed)
            if self._acting is not None:
                self._networks.share_acting(self._acting.networks)
            self._networks.to(self._device)
        self._env = env
        self._groups = {**groups, **self._networks.groups()}
        self._optimizer = PolicyOptimizer(self._groups, actor.optim, needs.networks)
        # ranks that divide parameters gather them together, so all make the same forwards
        self._lockstep = any(map(dtensor.is_sharded, every))
        most = min(actor.micro_batch_size, actor.share_of_each(collectives.world_size()))
        self._micro = MicroBatches(most, lockstep=self._lockstep)
        self._keeps = needs.replay or keeps
        self._replay = ReplayStore(self._keeps or ReplayNeeds(0), policy.spec, env, self._device)
        self._reference = ReferenceWeights(groups["policy"] if needs.reference_logprobs else ())
        self.remarks: dict[str, str] = {}

    def teach(self, samples: SupervisedSamples) -> None:
        """Have demonstrations among the rows of the replay."""
        self._replay.teach(samples)

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
            update: number of updates done before this one; part of all keys.
            lr_factors: see :class:`PolicyOptimizer`; None: 1 for all.

        Returns:
            Metrics under their canonical names, the same on all ranks.

        Raises:
            TrainingError: most of the steps that train a group were skipped, as their gradients
                hold NaN or infinity.
            AlgorithmError, PolicyError: an answer that breaks the contract.
        """
        self._optimizer.lr_factors, size_before = lr_factors or {}, self._micro.size
        batch = collectives.whole_batch(trajectory)
        if self._keeps is not None:
            self._replay.add(update, batch)
        if self._acting is not None:
            self._acting.learned = True
        learning = UpdateLearning(
            update,
            self._policy,
            cast(EnvSpec, self._env),
            self._networks.live,
            self._networks.lagged,
            self._replay,
            batch,
            self._reference,
            self.remarks,
            named=self._config.name,
            seed=self._seed,
            batch_size=self._actor.global_batch_size,
            device=self._device,
            micro=self._micro,
            settle=self._settle,
        )
        weights_before = self._optimizer.sample()
        metrics, counts = self._steps(self._algorithm.updates(learning))
        self._judge_skipped_steps(update, counts)
        steps = counts.made.total()
        shrunk, least = (
            collectives.all_max(size_before - self._micro.size),
            -collectives.all_max(-self._micro.size),
        )
        rates = self._optimizer.learning_rates()
        numbers = collectives.merge_metrics(metrics).numbers(steps)
        return {
            **numbers,
            **rollout_metrics(batch),
            "train/actor/lr": rates["policy"],
            "train/critic/lr": rates["value"],
            "train/actor/optimizer_steps": float(steps),
            "train/actor/skipped_steps": float(counts.skipped.total()),
            "train/actor/zero_gradient_steps": float(counts.zero_gradient),
            "train/actor/weights_moved": float(
                collectives.all_max(self._optimizer.moved_from(weights_before))
            ),
            "train/actor/trained_samples": collectives.all_sum(counts.samples),
            **learning.numbers,
            **({MICRO_BATCH_SIZE: float(least)} if shrunk else {}),
        }

    def _judge_skipped_steps(self, update: int, counts: _StepCounts) -> None:
        """Leave a remark on steps that were skipped, and refuse an update that is none: one of
        which most steps of a kind were skipped.

        Raises:
            TrainingError: it is none.
        """
        shares = [
            f"{skipped} of the {skipped + counts.made[groups]} steps of {groups}"
            for groups, skipped in counts.skipped.items()
        ]
        if any(skipped > counts.made[groups] for groups, skipped in counts.skipped.items()):
            raise TrainingError(
                f"update {update + 1} failed: the gradients of {', '.join(shares)} hold NaN or "
                "infinity",
                hint="rlcore resume goes on from the last checkpoint, e.g. with a lower learning "
                "rate or clip_grad (actor.optim of the policy; of networks: rlcore train --help "
                "algorithm), or actor.model.precision=fp32; of a loss of your own: rlcore check "
                "algorithm NAME",
            )
        if shares:
            self.remarks["skipped steps"] = (
                f"update {update + 1} skipped {', '.join(shares)}: their gradients hold NaN or "
                "infinity. Its KL, losses and other numbers are those of the steps that were made; "
                "a lower learning rate or clip_grad may help"
            )

    def _steps(self, asked: Iterable[Step]) -> tuple[Metrics, _StepCounts]:
        """Make the steps that are asked for; metrics of those that were made."""
        metrics, counts = Metrics(), _StepCounts()
        for step in asked:
            if unknown := set(step.trains) - self._groups.keys():
                raise AlgorithmError(
                    f"algorithm {self._config.name}: a step trains {sorted(unknown)}, expected "
                    f"some of {list(self._groups)}",
                    hint="AlgorithmNeeds.networks names what else there is to train",
                )
            with self._training(step):
                part = self._micro.retry_on_oom(
                    partial(self._backward, step), self._optimizer.zero_grad
                )
            for name, group in self._groups.items():
                if name not in step.trains:
                    for parameter in group:  # of a lockstep
                        parameter.grad = None
            collectives.add_gradients(
                one for name in step.trains for one in self._groups[name] if one.requires_grad
            )
            if not step.accept(part):
                self._optimizer.zero_grad()
                if not counts.made:  # what was measured is all there is to say
                    metrics.merge(part)
                break
            report = self._optimizer.step()
            groups = " and ".join(step.trains)
            if not report.applied:  # the numbers are no numbers
                counts.skipped[groups] += 1
                continue
            metrics.merge(part)
            metrics.add(self._grad_norms(step, report))
            self._networks.update_targets(step.trains)
            counts.made[groups] += 1
            counts.samples += step.samples
            counts.zero_gradient += report.grad_norm == 0.0
        return metrics, counts

    def _grad_norms(self, step: Step, report: StepReport) -> dict[str, Metric]:
        """Name the norms of what was clipped together: the first group's as the step is named, each
        further network's by its own name."""
        clipped = list(dict.fromkeys(map(self._optimizer.clipped_with, step.trains)))
        names = [step.name, *(METRIC_NAMES.get(name, name) for name in clipped[1:])]
        return {
            f"train/{name}/grad_norm": metric.observed(report.grad_norms.get(group, 0.0))
            for name, group in zip(names, clipped, strict=True)
        }

    def _backward(self, step: Step) -> Metrics:
        """Add the gradient of one step, micro-batch by micro-batch; its metrics."""
        metrics = Metrics()
        for piece in self._micro.split(step.samples):
            loss, terms = step.loss(piece)
            if loss.requires_grad:  # not so where the policy is frozen and nothing has a value
                loss.backward()
            if len(piece):
                metrics.add(terms)
        self._settle()
        return metrics

    def _settle(self) -> None:
        """Free gathered blocks after forwards, before weights change."""
        if self._lockstep:
            from rlcore.learner.shard import initialise_shards  # takes a second to import

            initialise_shards(self._policy)

    @contextmanager
    def _training(self, step: Step) -> Iterator[None]:
        """Train some groups alone; without gradients the policy's backward costs nothing. In
        lockstep it is made, as gathered parameters remember how they were gathered first."""
        frozen = [
            parameter
            for name, group in self._groups.items()
            if name not in step.trains and not (self._lockstep and name in ("policy", "value"))
            for parameter in group
            if parameter.requires_grad
        ]
        try:
            for parameter in frozen:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in frozen:
                parameter.requires_grad_(True)

    def tensors(self) -> Iterator[Tensor]:
        """All that it holds besides the policy's weights."""
        yield from self._optimizer.tensors()
        yield from self._networks.tensors()
        yield from self._reference.tensors

    @property
    def share(self) -> tuple[int, int] | None:
        """Which part of how many :meth:`state_dict` gives here; None: another rank gives it."""
        return dtensor.row_count(
            parameter for group in self._groups.values() for parameter in group
        )

    # -- state --------------------------------------------------------------------------------

    def save_replay(self, folder: Path, known: Iterable[str]) -> dict[str, Any]:
        """Write what a checkpoint has not yet of the replay into its folder; what its state says
        of it. Asked of all ranks.

        Args:
            known: names of files that it will get from an earlier checkpoint.
        """
        if self._keeps is None:
            return {}
        return {REPLAY: self._replay.save(folder, known)}

    def load_replay(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Take up the replay of a checkpoint, all ranks at once; the state is :meth:`save_replay`'s
        answer. One that was written without stays empty.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        if self._keeps is not None:
            self._replay.load(folder, state.get(REPLAY, []))

    def successes(self) -> SupervisedSamples | None:
        """The decisions of successful episodes in the replay; None: there are none."""
        return self._replay.successes()

    def state_dict(self) -> dict[str, Any]:
        """`{"tensors": {name: tensor}, "state": json-able}`: optimizer, reference weights and
        networks, of sharded parameters the rows that are held here.

        With adapters also all trained parameters: a saved policy has them merged into its
        weights, from which they can't be recovered.
        """
        saved = self._optimizer.state_dict()
        tensors = {f"{OPTIMIZER}{name}": tensor for name, tensor in saved["tensors"].items()}
        tensors |= self._reference.state_dict()
        if collectives.rank() == 0:
            tensors |= self._networks.state_dict()
        if self._actor.model.is_lora:
            tensors |= trained_parameters.kept(self._groups)
        return {"tensors": tensors, "state": {"optimizer": saved["state"]}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take up the state that :meth:`state_dict` gave.

        Raises:
            CheckpointError: it is of other parameters.
        """
        tensors = saved["tensors"]
        if self._actor.model.is_lora:
            trained_parameters.restore(self._groups, tensors)
        own = {
            name.removeprefix(OPTIMIZER): tensor
            for name, tensor in tensors.items()
            if name.startswith(OPTIMIZER)
        }
        self._optimizer.load_state_dict({"tensors": own, "state": saved["state"]["optimizer"]})
        self._reference.load_state_dict(tensors)
        self._networks.load_state_dict(tensors)
