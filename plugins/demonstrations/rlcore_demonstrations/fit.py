"""Train a policy on a data set of demonstrations: split, normalise, sample, fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.config.schema import SFTConfig
from rlcore.contracts.protocols import Demonstration, Policy
from rlcore.demonstrations.datasets import OnProgress, SupervisedSamples, format_of
from rlcore_demonstrations.supervised import SupervisedTrainer


def fit_demonstrations(
    policy: Policy,
    data: Path,
    sft: SFTConfig,
    *,
    seed: int,
    device: torch.device | None = None,
    continue_seconds: float | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Train on the successful demonstrations in `data`.

    From the start, the normaliser is fitted to the training part first; a continuation keeps it.

    Args:
        device: where the policy computes; None: where its parameters are.
        continue_seconds: go on for this long instead of `sft.max_steps` steps.

    Returns:
        :meth:`rlcore_demonstrations.supervised.SupervisedHistory.summary`.

    Raises:
        CheckpointError, ConfigError: a missing or damaged data set, or one that can't be split.
    """
    train, val = map(list, format_of(data).read(data).split(sft.val_fraction, seed))
    trainer = SupervisedTrainer(policy, sft, seed=seed, device=device)
    if continue_seconds is None:
        policy.fit_normalizer(train)
    samples = [supervised_samples(policy, part) for part in (train, val)]
    if continue_seconds is None:
        history = trainer.fit(*samples, on_progress=on_progress)
    else:
        history = trainer.go_on(*samples, seconds=continue_seconds, on_progress=on_progress)
    return history.summary()


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
