"""Train a policy on a data set of demonstrations: split, normalise, sample, fit."""

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
    """Train on the successful demonstrations in `data`, to whose training part the normaliser is
    fitted first.

    Args:
        device: where the policy computes; None: where its parameters are.

    Returns:
        :meth:`rlcore_demonstrations.supervised.SupervisedHistory.summary`.

    Raises:
        CheckpointError, ConfigError: a missing or damaged data set, or one that can't be split.
    """
    train, val = map(list, format_of(data).read(data).split(sft.val_fraction, seed))
    with ExitStack() as ends:
        decoders = _started([*train, *val], sft)  # they import what they need meanwhile
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
    """Go on from the present weights, under the normaliser that they have.

    Args:
        samples: on how many to train, in all.
        more: samples beside the demonstrations; half of a batch each.

    Returns:
        What trains up to a share of these, and gives the history of all of it so far.
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
    """Processes that read frames; None: all frames are in memory. Each begins at once with none
    of a demonstration's frames, which imports all that reading takes."""
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
    """In memory, where their frames are there already; else read ahead of the trainer."""
    if decoders is None or not demos:
        return supervised_samples(policy, demos)
    return StreamedSamples(policy, demos, decoders, memory=sft.memory_gb * 1e9)


def _joined(shown: SupervisedSamples, own: SupervisedSamples) -> SupervisedSamples:
    """Both, drawn equally often."""
    parts = (shown, own)
    weights = [np.ones(len(one)) if one.weights is None else one.weights for one in parts]
    return SupervisedSamples(
        {name: torch.cat([one.inputs[name].cpu() for one in parts]) for name in shown.inputs},
        torch.cat([one.actions.cpu() for one in parts]),
        torch.cat([one.mask.cpu() for one in parts]),
        np.concatenate([each / each.sum() for each in weights]),
    )


def supervised_samples(policy: Policy, demos: Sequence[Demonstration]) -> SupervisedSamples:
    """Every frame of every demonstration as a sample, in order; of none no sample."""
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
