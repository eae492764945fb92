"""Learn with an on-policy algorithm as RLinf does: mask what is not trained on.

trimmed   episodes went on after their success; steps behind it are masked
masked    samples without a trained step are evaluated too, at weight 0
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from rlcore_policy_gradient import on_policy
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.samples import Samples, make_samples
from rlcore_policy_gradient.settings import PolicyGradientConfig

from rlcore.contracts.learning import Step
from rlcore.contracts.protocols import Algorithm, Learning
from rlcore.contracts.trajectory import Trajectory
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins


def trim(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory whose episodes end at their first positive reward.

    Steps behind it become invalid, and chunks without a valid step have no sample. It is for
    sparse rewards, one episode a column, of rollouts with `ignore_terminations`.
    """
    chunk = trajectory.rewards.shape[-1]
    solved = (trajectory.rewards > 0).transpose(1, 2).flatten(0, 1)  # [T * C, N]
    solved_before = solved.cumsum(0) - solved.long() > 0
    kept = (~solved_before).unflatten(0, (-1, chunk)).transpose(1, 2)
    first = (solved & ~solved_before).unflatten(0, (-1, chunk)).transpose(1, 2)
    valid = trajectory.valid & kept
    return replace(
        trajectory,
        rewards=trajectory.rewards * kept,
        valid=valid,
        terminated=trajectory.terminated & kept | first,
        truncated=trajectory.truncated & kept & ~first,
        sample_index=torch.where(valid.any(-1), trajectory.sample_index, -1),
    )


@dataclass
class EverySample(Samples):
    """Samples that are all evaluated, those that are not trained on at weight 0."""

    @property
    def trained(self) -> torch.Tensor:
        return torch.ones(len(self), dtype=torch.bool)


@contextmanager
def evaluating_every_sample() -> Iterator[None]:
    """Make updates evaluate every place of the batch; where nothing was decided, on any input."""

    def make(trajectory: Trajectory, made: Advantages, config: PolicyGradientConfig) -> Samples:
        samples = make_samples(trajectory, made, config)
        return EverySample(**{**vars(samples), "row": samples.row.clamp(min=0)})

    with mock.patch.object(on_policy, "make_samples", make):
        yield


def make_algorithm(config: PolicyGradientConfig, *, masks: bool, trims: bool) -> Algorithm:
    """Make the configured algorithm, which learns in this way."""
    base: Any = load_target(load_plugins().get("algorithm", config.name).spec.target)

    class AsReference(base):  # type: ignore[misc]
        def updates(self, learning: Learning) -> Iterator[Step]:
            if trims:
                learning.rollout = trim(learning.rollout)
            if not masks:
                yield from super().updates(learning)
                return
            with evaluating_every_sample():
                yield from super().updates(learning)

    algorithm: Algorithm = AsReference(config)
    return algorithm


masked = partial(make_algorithm, masks=True, trims=False)
trimmed = partial(make_algorithm, masks=False, trims=True)
masked_and_trimmed = partial(make_algorithm, masks=True, trims=True)
