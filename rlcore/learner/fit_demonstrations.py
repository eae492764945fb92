"""Train a policy on a data set of demonstrations: split, fit the normaliser, sample, train."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.config.schema import SFTConfig
from rlcore.contracts.protocols import Demonstration, Policy
from rlcore.demonstrations.datasets import OnProgress, SupervisedSamples, format_of
from rlcore.demonstrations.decoders import Decoders
from rlcore.demonstrations.frames import LazyFrames
from rlcore.files.damaged_files import damaged_on
from rlcore.learner.streamed_samples import StreamedSamples
from rlcore.learner.supervised import Samples, SupervisedTrainer
from rlcore.runs.learner_state import COUNTERS, read_learner
from rlcore.runs.sft_record import LOSSES


class DemonstrationTraining:
    """Supervised training of a policy on the successful demonstrations in a data set, in parts.

    The caller must call :meth:`close` at the end.

    Args:
        policy: changed in place.
        data: the data set.
        sft: settings of supervised training.
        seed: root seed of the split, batches and noise.
        device: device on which the policy computes; None: the device of its parameters.
        fit_normalizer: whether to fit the policy's normaliser to the training split first.
        own_successes: samples to add to the demonstrations; each kind has half of the sampling
            weight.
        made, samples, adapters: see :class:`rlcore.learner.supervised.SupervisedTrainer`.
        saved: folder with a saved state of this training; None: begin at the first step.

    Raises:
        CheckpointError, ConfigError: the data set or the state is missing, damaged, or does not
            fit.
    """

    def __init__(
        self,
        policy: Policy,
        data: Path,
        sft: SFTConfig,
        *,
        seed: int,
        device: torch.device | None = None,
        fit_normalizer: bool = True,
        own_successes: SupervisedSamples | None = None,
        made: int = 0,
        samples: int | None = None,
        adapters: bool = False,
        saved: Path | None = None,
    ) -> None:
        train, val = _split(data, sft, seed)
        with ExitStack() as stack:
            # started first, so that their imports overlap with the rest
            decoders = _start_decoders([*train, *val], sft)
            if decoders is not None:
                stack.enter_context(closing(decoders))
            if fit_normalizer:
                policy.fit_normalizer(train)
            training: Samples
            if own_successes is None:
                training = _samples(policy, train, sft, decoders)
            else:
                training = _concatenate(supervised_samples(policy, train), own_successes)
            validation = _samples(policy, val, sft, decoders)
            self._streamed = [
                part for part in (training, validation) if isinstance(part, StreamedSamples)
            ]
            for part in self._streamed:
                stack.enter_context(closing(part))
            self.trainer = SupervisedTrainer(
                policy,
                sft,
                training,
                validation,
                seed=seed,
                device=device,
                made=made,
                samples=samples,
                adapters=adapters,
            )
            if saved is not None:
                state = read_learner(saved)
                with damaged_on(saved / COUNTERS):
                    self.trainer.load_state_dict(state)
            self._waited_before = self.trainer.history.waited
            self._reported: dict[str, int] = {}  # number of losses, by kind
            self._resources = stack.pop_all()

    def train(
        self, until: int | None = None, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Continue training, see :meth:`rlcore.learner.supervised.SupervisedTrainer.train`.

        Returns:
            The same as :meth:`report`.
        """
        history = self.trainer.train(until, on_progress)
        history.waited = self._waited_before + sum(part.waited for part in self._streamed)
        return self.report()

    def report(self) -> dict[str, Any]:
        """Return :meth:`rlcore.learner.supervised.SupervisedHistory.summary`, with the losses since
        the last report alone: a long training has many."""
        history = self.trainer.history
        report = history.summary(self._reported)
        self._reported = {kind: len(getattr(history, kind)) for kind in LOSSES}
        return report

    def close(self) -> None:
        """Stop the processes that read frames."""
        self._resources.close()


def supervised_samples(policy: Policy, demos: Sequence[Demonstration]) -> SupervisedSamples:
    """Return one sample for each frame of each demonstration, in order, in memory.

    Each demonstration is read once, and its frames are dropped before the next one is read.
    """
    if not demos:
        return SupervisedSamples({}, torch.empty(0), torch.empty(0, dtype=torch.bool))
    parts = []
    counts = []
    weights = []
    steps_left = []
    for demo in demos:
        count = len(demo.frame_steps)
        parts.append(policy.sft_batch(demo, range(count)))
        counts.append(count)
        weights.append(np.full(count, demo.weight))
        steps_left.append(len(demo.actions) - demo.frame_steps)
    names = parts[0][0]
    return SupervisedSamples(
        inputs={
            name: torch.from_numpy(np.concatenate([inputs[name] for inputs, _, _ in parts]))
            for name in names
        },
        actions=torch.from_numpy(np.concatenate([actions for _, actions, _ in parts])).float(),
        mask=torch.from_numpy(np.concatenate([mask for _, _, mask in parts])),
        weights=np.concatenate(weights),
        demonstration=torch.arange(len(demos)).repeat_interleave(torch.tensor(counts)),
        steps_left=torch.from_numpy(np.concatenate(steps_left)),
    )


def _split(
    data: Path, sft: SFTConfig, seed: int
) -> tuple[list[Demonstration], list[Demonstration]]:
    """Return the demonstrations in `data` for training and for validation."""
    train, val = format_of(data).read(data).split(sft.val_fraction, seed)
    return list(train), list(val)


def _start_decoders(demos: Sequence[Demonstration], sft: SFTConfig) -> Decoders | None:
    """Start processes that read frames; None if all frames are in memory.

    Each process first reads an empty list of frames, which makes it import its libraries early.
    """
    frames = next((demo.frames for demo in demos if isinstance(demo.frames, LazyFrames)), None)
    if frames is None:
        return None
    decoders = Decoders(sft.decoders, sft.decoder_timeout)
    for _ in range(sft.decoders):
        decoders.submit(partial(frames.read, ()))
    return decoders


def _samples(
    policy: Policy, demos: Sequence[Demonstration], sft: SFTConfig, decoders: Decoders | None
) -> Samples:
    """Return samples in memory if the frames are in memory, else samples that are read ahead."""
    if decoders is None or not demos:
        return supervised_samples(policy, demos)
    return StreamedSamples(policy, demos, decoders, memory=sft.memory_gb * 1e9)


def _concatenate(demos: SupervisedSamples, own: SupervisedSamples) -> SupervisedSamples:
    """Concatenate two sets of samples; each set has the same total weight."""
    parts = (demos, own)
    weights = [np.ones(len(part)) if part.weights is None else part.weights for part in parts]
    return SupervisedSamples(
        {name: torch.cat([part.inputs[name].cpu() for part in parts]) for name in demos.inputs},
        torch.cat([part.actions.cpu() for part in parts]),
        torch.cat([part.mask.cpu() for part in parts]),
        np.concatenate([array / array.sum() for array in weights]),
    )
