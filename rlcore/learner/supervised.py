"""Supervised training on demonstrations, with validation. Reads and writes no files.

The random key of a batch is its step, that of the noise is (step, sample), so a run is
bit-identical whatever ran before it, and in however many parts it is trained. Validation uses the
same noise each time, so its losses differ by the weights alone.

Actor ranks split the samples of each batch and sum the results, which equal those of one rank up to
the order of sums.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rlcore.config.schema import OptimConfig, SFTConfig
from rlcore.contracts.errors import ConfigError, TrainingError
from rlcore.contracts.protocols import Policy
from rlcore.contracts.rng import RowKeys, generator
from rlcore.demonstrations.datasets import OnProgress
from rlcore.learner import collectives, dtensor, trained_parameters
from rlcore.learner.optim import PolicyOptimizer, StepReport, cosine
from rlcore.learner.streamed_samples import Batch
from rlcore.runs.sft_record import LOSSES
from rlcore.validation.policy import check_parameter_groups

GRAD_NORM = 1.0
"""Largest norm of a supervised gradient; larger ones are clipped."""

RECENT = 50
"""Training fails if most of the last RECENT steps, or most of all steps, were skipped."""

LEVEL = 0.05
"""Validation has levelled off if the best late loss is less than this share below the best early
one."""


class Samples(Protocol):
    """Training samples, in memory or prefetched."""

    @property
    def weights(self) -> np.ndarray | None:
        """Return the relative sampling weight of each sample; None: all are equal."""

    def __len__(self) -> int: ...

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield the batch for each tensor of sample numbers in `rows`."""


@dataclass
class SupervisedHistory:
    """The record of a supervised training.

    Attributes:
        train_loss: `(step, loss of its batch)` for each step that was not skipped.
        val_loss: `(steps done, mean validation loss)`, ascending.
        steps: number of optimizer steps so far, skipped ones included.
        planned_steps: number of steps after which training ends, if `patience` does not end it.
        batch_size: samples per step, of all ranks.
        skipped_steps: number of steps that were skipped because their gradient was not finite.
        zero_gradient_steps: number of steps whose gradient was zero.
        seconds: wall time.
        waited: seconds in which training waited for frames.
        stopped: why training ended, in words; empty until then.
        patience: number of validations that count as late; None: those of the last quarter of the
            steps.
    """

    train_loss: list[tuple[int, float]] = field(default_factory=list)
    val_loss: list[tuple[int, float]] = field(default_factory=list)
    steps: int = 0
    planned_steps: int = 0
    batch_size: int = 0
    skipped_steps: int = 0
    zero_gradient_steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    stopped: str = ""
    patience: int | None = None

    @property
    def best_step(self) -> int | None:
        """Return the steps done at the lowest validation loss, the first of equal ones."""
        return min(self.val_loss, key=lambda point: point[1])[0] if self.val_loss else None

    @property
    def late_improvement(self) -> float | None:
        """Return (best early - best late) / best early validation loss; negative if it got worse.

        None if there are no early or no late validations, or if the best early loss is at most 0.
        """
        steps = [step for step, _ in self.val_loss]
        losses = [loss for _, loss in self.val_loss]
        if self.patience is not None:
            early = max(len(losses) - self.patience, 0)
        else:
            early = sum(step <= steps[0] + 0.75 * (steps[-1] - steps[0]) for step in steps)
        before = losses[:early]
        late = losses[early:]
        if not before or not late or min(before) <= 0:
            return None
        return (min(before) - min(late)) / min(before)

    @property
    def plateaued(self) -> bool:
        """Return whether validation has levelled off (see :data:`LEVEL`)."""
        improvement = self.late_improvement
        return improvement is not None and improvement < LEVEL

    def summary(self, since: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
        """Return all attributes and properties as values that JSON can hold.

        Args:
            since: number of entries, by kind of loss, that are left out.
        """
        losses = {kind: getattr(self, kind)[since.get(kind, 0) :] for kind in LOSSES}
        return {
            **vars(self),
            **losses,
            "best_step": self.best_step,
            "late_improvement": self.late_improvement,
            "plateaued": self.plateaued,
        }


class SupervisedTrainer:
    """Trains the policy group of a policy's parameters on demonstrations.

    Args:
        policy: a policy with a supervised loss, changed in place; a critic is not trained.
        config: settings of supervised training.
        train: training samples.
        val: validation samples; without any, there is no validation.
        seed: root seed of batches and noise.
        device: device on which the policy computes; None: the device of its parameters.
        made: steps that led to the current weights; the batches have other keys than theirs.
        samples: samples of all steps together, rounded up to whole batches: a control, of as much
            work as reinforcement learning (:mod:`rlcore.training.control_work`); None: training
            ends after `max_steps` steps, or when validation has levelled off over the last
            `patience` validations.
        adapters: whether a saved policy has its adapters merged into its weights, so that
            :meth:`state_dict` must have the trained parameters too.

    Attributes:
        history: the record of the training so far.

    Raises:
        ConfigError: there are no training samples.
    """

    def __init__(
        self,
        policy: Policy,
        config: SFTConfig,
        train: Samples,
        val: Samples,
        *,
        seed: int,
        device: torch.device | None = None,
        made: int = 0,
        samples: int | None = None,
        adapters: bool = False,
    ) -> None:
        self._policy = policy
        self._config = config
        self._train = train
        self._val = val
        self._seed = seed
        self._first = made
        self._samples = samples
        self._adapters = adapters
        self._trained = check_parameter_groups(policy)["policy"]
        self._device = device or self._trained[0].device
        self._sharded = any(map(dtensor.is_sharded, self._trained))
        settings = OptimConfig(
            lr=config.lr,
            lr_warmup_steps=config.lr_warmup_steps,
            weight_decay=config.weight_decay,
            clip_grad=GRAD_NORM,
        )
        self._optimizer = PolicyOptimizer({"policy": self._trained}, settings)
        if not len(train):
            raise ConfigError(
                "there are no demonstrations to train on",
                hint="raise collect.episodes_per_task or lower sft.val_fraction",
            )
        size = min(config.batch_size, len(train))  # of all ranks
        steps = config.max_steps if samples is None else math.ceil(samples / size)
        self.history = SupervisedHistory(
            planned_steps=steps, batch_size=size, patience=config.patience
        )
        self._batches: Iterator[Batch] | None = None  # from the step that follows

    def train(
        self, until: int | None = None, on_progress: OnProgress | None = None
    ) -> SupervisedHistory:
        """Continue training, and return the history. Wall time has no influence on the result.

        A cosine schedule ends after `planned_steps` steps.

        Args:
            until: number of steps, of all calls, at which to return; None: to the end.
            on_progress: called after each step with steps, seconds and latest losses.

        Raises:
            TrainingError: most gradients, a weight or a validation loss is not finite.
        """
        history = self.history
        started = time.monotonic() - history.seconds
        latest: dict[str, float] = {}
        if self._batches is None:
            begin = self._first + history.steps
            rows = (own_share(self._draw(step)) for step in count(begin))
            self._batches = self._train.batches(rows)
        while not history.stopped and history.steps != until:
            if history.steps % self._config.val_interval == 0:
                self._record_validation(latest)
            history.stopped = self._reason_to_stop()
            if history.stopped:
                if history.steps % self._config.val_interval:
                    self._record_validation(latest)
                self._require_finite()
                break
            if self._config.lr_scheduler == "cosine":
                factor = cosine(history.steps / history.planned_steps)
                self._optimizer.lr_factors = {"policy": factor}
            step = self._first + history.steps
            loss, report = self._step(next(self._batches), self._draw(step), step)
            history.steps += 1
            if report.applied:
                latest["train_loss"] = loss
                history.zero_gradient_steps += report.grad_norm == 0
                history.train_loss.append((step, loss))
            else:
                history.skipped_steps += 1
            self._require_recent_steps()
            if on_progress is not None:
                spent = time.monotonic() - started
                on_progress({"steps": history.steps, "seconds": spent, **latest})
        history.seconds = time.monotonic() - started
        return history

    def _reason_to_stop(self) -> str:
        """Return why training ends after the steps so far; empty if another step follows."""
        history = self.history
        ended = history.steps >= history.planned_steps
        if self._samples is not None:
            reason = f"{history.planned_steps} steps of {history.batch_size} samples"
            return f"{reason}, for {self._samples}" if ended else ""
        if history.patience is not None and history.plateaued:
            return f"validation levelled off (sft.patience={history.patience})"
        return f"sft.max_steps={history.planned_steps}" if ended else ""

    def state_dict(self) -> dict[str, Any]:
        """Return `{"tensors": {name: tensor}, "state": JSON values}`: optimizer and history.

        Tensors of sharded parameters have the local rows. With adapters the trained parameters are
        included.
        """
        saved = self._optimizer.state_dict()
        tensors = dict(saved["tensors"])
        if self._adapters:
            tensors |= trained_parameters.snapshot(self._groups)
        history = self.history.summary()
        fields = {name: history[name] for name in vars(self.history)}
        state = {"first": self._first, "optimizer": saved["state"], "history": fields}
        return {"tensors": tensors, "state": state}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Load the result of :meth:`state_dict`, with all rows of sharded parameters.

        Raises:
            CheckpointError: names or shapes differ from those of this policy's parameters.
        """
        tensors = dict(saved["tensors"])
        if self._adapters:
            trained_parameters.restore(self._groups, tensors)
        moments = {
            name: tensor
            for name, tensor in tensors.items()
            if not name.startswith(trained_parameters.PREFIX)
        }
        self._optimizer.load_state_dict({"tensors": moments, "state": saved["state"]["optimizer"]})
        self.history = SupervisedHistory(**saved["state"]["history"])
        self.history.train_loss = [(step, loss) for step, loss in self.history.train_loss]
        self.history.val_loss = [(step, loss) for step, loss in self.history.val_loss]
        self._batches = None

    @property
    def _groups(self) -> dict[str, list[Any]]:
        return {"policy": self._trained, "value": []}

    @property
    def share(self) -> tuple[int, int] | None:
        """Return (index, count) of the shard that :meth:`state_dict` returns on this rank; None if
        another rank saves the same shard."""
        return dtensor.row_count(self._trained)

    def validate(self, samples: Samples) -> float:
        """Return the mean loss over all samples of all ranks, with the same noise each time."""
        total = 0.0
        batches = torch.arange(len(samples)).split(self._config.batch_size)
        for rows, batch in zip(batches, samples.batches(map(own_share, batches)), strict=True):
            with torch.no_grad():
                total += float(self._share_sum(batch, rows, "sft-validation", 0))
        self._settle()
        return collectives.all_sum(total) / len(samples)

    def _require_finite(self) -> None:
        """Raise TrainingError if most steps were skipped or a weight of any rank is not finite."""
        history = self.history
        self._require_steps(history.skipped_steps, history.steps, f"its {history.steps} steps")
        if collectives.all_max(
            not all(bool(dtensor.local_shard(weight).isfinite().all()) for weight in self._trained)
        ):
            raise _not_finite("a weight holds")

    def _require_recent_steps(self) -> None:
        """Raise TrainingError if most of the last :data:`RECENT` steps were skipped."""
        history = self.history
        if history.steps >= RECENT:
            since = self._first + history.steps - RECENT
            applied = sum(step >= since for step, _ in history.train_loss[-RECENT:])
            self._require_steps(RECENT - applied, RECENT, f"its last {RECENT} steps")

    def _require_steps(self, skipped: int, steps: int, among: str) -> None:
        """Raise TrainingError if more than half of `steps` were skipped."""
        if 2 * skipped > steps:
            raise _not_finite(f"the gradients of {skipped} of {among} hold")

    def _record_validation(self, latest: dict[str, float]) -> None:
        history = self.history
        if not len(self._val):
            return
        latest["val_loss"] = self.validate(self._val)
        if not math.isfinite(latest["val_loss"]):
            raise TrainingError(
                f"the supervised validation loss after {history.steps} steps is "
                f"{latest['val_loss']}, expected a finite number",
                hint="lower sft.lr; after 0 steps look at sft_batch and sft_loss of the model: "
                "rlcore check model NAME",
            )
        history.val_loss.append((self._first + history.steps, latest["val_loss"]))

    def _draw(self, step: int) -> Tensor:
        """Return the sample numbers of a step's batch, of all ranks, drawn without replacement."""
        weights = self._train.weights
        # equal weights draw the same batches as no weights
        shares = None if weights is None or np.ptp(weights) == 0 else weights / weights.sum()
        random = generator(self._seed, "sft", step)
        size = self.history.batch_size
        return torch.from_numpy(random.choice(len(self._train), size=size, replace=False, p=shares))

    def _step(self, batch: Batch, rows: Tensor, step: int) -> tuple[float, StepReport]:
        """Make one optimizer step; return the loss of its batch over all ranks, and a report."""
        self._optimizer.zero_grad()
        loss = self._share_sum(batch, rows, "sft", step) / len(rows)
        loss.backward()
        self._settle()
        collectives.add_gradients(self._trained)
        report = self._optimizer.step()
        return collectives.all_sum(float(loss.detach())), report

    def _share_sum(self, batch: Batch, rows: Tensor, phase: str, step: int) -> Tensor:
        """Return the sum of the losses of this rank's share of a batch.

        A rank with an empty share runs the forward on one sample, because the forwards of sharded
        ranks must match, and returns 0.
        """
        losses = self._losses(batch, own_share(rows), phase, step)
        return losses.sum() if collectives.rank() < len(rows) else losses[:0].sum()

    def _settle(self) -> None:
        """Free gathered weights of a sharded policy after forwards, before its weights change."""
        if self._sharded:
            from rlcore.learner.shard import reshard_blocks  # takes a second to import

            reshard_blocks(self._policy)

    def _losses(self, batch: Batch, rows: Tensor, phase: str, step: int) -> Tensor:
        """Return the loss per sample `[B]`, with noise keyed by (phase, step, sample)."""
        keys = RowKeys(tuple((self._seed, phase, step, row) for row in rows.tolist()))
        inputs, actions, mask = batch
        return self._policy.sft_loss(
            {name: array.to(self._device) for name, array in inputs.items()},
            actions.to(self._device),
            mask.to(self._device),
            keys,
        )


def _not_finite(what: str) -> TrainingError:
    """Return the error for values that are not finite; `what` is the subject and verb."""
    return TrainingError(
        f"supervised training failed: {what} NaN or infinity",
        hint="lower sft.lr; or look at sft_batch and sft_loss of the model: "
        "rlcore check model NAME",
    )


def own_share(rows: Tensor) -> Tensor:
    """Return this rank's share of a batch; if empty, the batch's first sample."""
    share = rows[collectives.rank() :: collectives.world_size()]
    return share if len(share) else rows[:1]
