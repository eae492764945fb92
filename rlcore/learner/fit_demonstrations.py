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
from rlcore.learner.streamed_samples import StreamedSamples
from rlcore.learner.supervised import Samples, SupervisedHistory, SupervisedTrainer


def fit_demonstrations(
    policy: Policy,
    data: Path,
    sft: SFTConfig,
    *,
    seed: int,
    device: torch.device | None = None,
    made: int = 0,
    before: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Fit the policy's normaliser and train it on the successful demonstrations in `data`.

    The normaliser is fitted to the training split, and kept where training goes on.

    Args:
        policy: changed in place.
        data: the data set.
        sft: settings of supervised training.
        seed: root seed of the split, batches and noise.
        device: device on which the policy computes; None: the device of its parameters.
        made: steps that earlier calls made on the same data, of which the policy has the weights
            and the normaliser; 0: this is the first.
        before: supervised steps of earlier runs that led to the policy's weights; the batches have
            other keys than theirs too.
        on_progress: called after each step with steps, seconds and latest losses.

    Returns:
        :meth:`rlcore.learner.supervised.SupervisedHistory.summary`, and `waited`, the seconds that
        the trainer waited for frames.

    Raises:
        CheckpointError, ConfigError: the data set is missing, damaged, or can't be split.
    """
    train, val = _split(data, sft, seed)
    with ExitStack() as stack:
        # started first, so that their imports overlap with the rest
        decoders = _start_decoders([*train, *val], sft)
        if decoders is not None:
            stack.enter_context(closing(decoders))
        trainer = SupervisedTrainer(policy, sft, seed=seed, device=device)
        if not made:
            policy.fit_normalizer(train)
        samples = [_samples(policy, demos, sft, decoders) for demos in (train, val)]
        streamed = [part for part in samples if isinstance(part, StreamedSamples)]
        for part in streamed:
            stack.enter_context(closing(part))
        history = trainer.fit(*samples, made=before + made, on_progress=on_progress)
        return {**history.summary(), "waited": sum((part.waited for part in streamed), 0.0)}


class ControlTraining:
    """More supervised training, from the current weights and with the current normaliser.

    For the other arguments see :func:`fit_demonstrations`.

    Args:
        samples: number of samples to train on in total.
        own_successes: samples to add to the demonstrations; each kind has half of the sampling
            weight.
    """

    def __init__(
        self,
        policy: Policy,
        data: Path,
        sft: SFTConfig,
        *,
        seed: int,
        device: torch.device | None = None,
        samples: int,
        own_successes: SupervisedSamples | None = None,
    ) -> None:
        train, val = _split(data, sft, seed)
        self._trainer = SupervisedTrainer(policy, sft, seed=seed, device=device)
        decoders = _start_decoders([*train, *val], sft)
        self._val = _samples(policy, val, sft, decoders)
        self._train: Samples
        if own_successes is None:
            self._train = _samples(policy, train, sft, decoders)
        else:
            self._train = _concatenate(supervised_samples(policy, train), own_successes)
        self._samples = samples
        self._history: SupervisedHistory | None = None

    def train(self, until: float, on_progress: OnProgress | None) -> dict[str, Any]:
        """Train until the share `until` of the steps is done; return the history so far."""
        self._history = self._trainer.fit_control(
            self._train,
            self._val,
            samples=self._samples,
            until=until,
            history=self._history,
            on_progress=on_progress,
        )
        return self._history.summary()


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
