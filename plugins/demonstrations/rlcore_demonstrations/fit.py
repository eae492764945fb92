"""Train a policy on a data set of demonstrations: split, fit the normaliser, sample, train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.config.schema import SFTConfig
from rlcore.contracts.protocols import Demonstration, Policy
from rlcore.demonstrations.datasets import OnProgress, SupervisedSamples, format_of
from rlcore_demonstrations.decoders import Decoders
from rlcore_demonstrations.frames import LazyFrames
from rlcore_demonstrations.stream import StreamedSamples
from rlcore_demonstrations.supervised import Samples, SupervisedHistory, SupervisedTrainer


def fit_demonstrations(
    policy: Policy,
    data: Path,
    sft: SFTConfig,
    *,
    seed: int,
    device: torch.device | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Fit the policy's normaliser and train it on the successful demonstrations in `data`.

    The normaliser is fitted to the training split.

    Args:
        policy: changed in place.
        data: the data set.
        sft: settings of supervised training.
        seed: root seed of the split, batches and noise.
        device: device on which the policy computes; None: the device of its parameters.
        on_progress: called after each step with steps, seconds and latest losses.

    Returns:
        :meth:`rlcore_demonstrations.supervised.SupervisedHistory.summary`, and `waited`, the
        seconds that the trainer waited for frames.

    Raises:
        CheckpointError, ConfigError: the data set is missing, damaged, or can't be split.
    """
    train, val = map(list, format_of(data).read(data).split(sft.val_fraction, seed))
    with ExitStack() as ends:
        # started first, so that their imports overlap with the rest
        decoders = _started([*train, *val], sft)
        if decoders is not None:
            ends.enter_context(closing(decoders))
        trainer = SupervisedTrainer(policy, sft, seed=seed, device=device)
        policy.fit_normalizer(train)
        samples = [_samples(policy, part, sft, decoders) for part in (train, val)]
        streamed = [one for one in samples if isinstance(one, StreamedSamples)]
        for one in streamed:
            ends.enter_context(closing(one))
        history = trainer.fit(*samples, on_progress=on_progress)
        return {**history.summary(), "waited": sum((one.waited for one in streamed), 0.0)}


def more_demonstrations(
    policy: Policy,
    data: Path,
    sft: SFTConfig,
    *,
    seed: int,
    device: torch.device | None = None,
    samples: int,
    more: SupervisedSamples | None = None,
) -> Callable[[float, OnProgress | None], dict[str, Any]]:
    """Prepare more supervised training from the current weights, with the current normaliser.

    For the other arguments see :func:`fit_demonstrations`.

    Args:
        samples: number of samples to train on in total.
        more: samples to add to the demonstrations; each kind has half of the sampling weight.

    Returns:
        A function `(until, on_progress)` that trains until the share `until` of the steps is done
        and returns the summary of the history so far. It can be called repeatedly.
    """
    train, val = format_of(data).read(data).split(sft.val_fraction, seed)
    trainer = SupervisedTrainer(policy, sft, seed=seed, device=device)
    train, val = list(train), list(val)
    decoders = _started([*train, *val], sft)
    held_back = _samples(policy, val, sft, decoders)
    learned: Samples
    if more is None:
        learned = _samples(policy, train, sft, decoders)
    else:
        learned = _joined(supervised_samples(policy, train), more)
    history: SupervisedHistory | None = None

    def go_on(until: float, on_progress: OnProgress | None) -> dict[str, Any]:
        nonlocal history
        history = trainer.go_on(
            learned,
            held_back,
            samples=samples,
            until=until,
            history=history,
            on_progress=on_progress,
        )
        return history.summary()

    return go_on


def _started(demos: Sequence[Demonstration], sft: SFTConfig) -> Decoders | None:
    """Start processes that read frames; None if all frames are in memory.

    Each process first reads an empty list of frames, which makes it import its libraries early.
    """
    frames = next((one.frames for one in demos if isinstance(one.frames, LazyFrames)), None)
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


def _joined(shown: SupervisedSamples, own: SupervisedSamples) -> SupervisedSamples:
    """Concatenate two sets of samples; each set has the same total weight."""
    parts = (shown, own)
    weights = [np.ones(len(one)) if one.weights is None else one.weights for one in parts]
    return SupervisedSamples(
        {name: torch.cat([one.inputs[name].cpu() for one in parts]) for name in shown.inputs},
        torch.cat([one.actions.cpu() for one in parts]),
        torch.cat([one.mask.cpu() for one in parts]),
        np.concatenate([each / each.sum() for each in weights]),
    )


def supervised_samples(policy: Policy, demos: Sequence[Demonstration]) -> SupervisedSamples:
    """Return one sample for each frame of each demonstration, in order, in memory."""
    if not demos:
        return SupervisedSamples({}, torch.empty(0), torch.empty(0, dtype=torch.bool))
    parts = [policy.sft_batch(demo, range(len(demo.frame_steps))) for demo in demos]
    names = parts[0][0]
    return SupervisedSamples(
        inputs={
            name: torch.from_numpy(np.concatenate([inputs[name] for inputs, _, _ in parts]))
            for name in names
        },
        actions=torch.from_numpy(np.concatenate([actions for _, actions, _ in parts])).float(),
        mask=torch.from_numpy(np.concatenate([mask for _, _, mask in parts])),
        weights=np.concatenate([np.full(len(demo.frame_steps), demo.weight) for demo in demos]),
    )
