"""Turn a trajectory into training samples: one per chunk, in canonical order, with weights.

Every rank has the light arrays of all ranks; only the rank that made a sample has its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcore.contracts.rng import generator
from rlcore.contracts.trajectory import Trajectory
from rlcore_policy_gradient.minibatch import Advantages, Minibatch, Weights
from rlcore_policy_gradient.reduce import batch_weights, valid_at_level
from rlcore_policy_gradient.settings import PolicyGradientConfig


@dataclass
class Samples(Minibatch):
    """A batch as one great minibatch: P = T N places, sample p = t N + n; places without a
    decision are invalid. Minibatches are taken from it by place, `samples[places]`.

    Attributes:
        row: int64 `[P]`, row of `inputs` / `replay` of this rank; -1 for none.
        inputs, replay: `{name: [M, ...]}`.
    """

    row: Tensor
    inputs: dict[str, Tensor]
    replay: dict[str, Tensor]

    @property
    def trained(self) -> Tensor:
        """bool `[P]`: samples with an executed action that is trained on."""
        return self.valid.any(-1)


def make_samples(
    trajectory: Trajectory, advantages: Advantages, config: PolicyGradientConfig
) -> Samples:
    """Flatten a batch and weigh its elements."""
    entries = trajectory.shape[-1]
    valid = advantages.valid

    def weigh(elements: Tensor) -> Tensor:
        return batch_weights(elements, trajectory.episode, config.loss_agg_func)

    width = trajectory.values.shape[-1]
    # one value per chunk counts where the chunk does, C values where their actions do
    value_valid = valid if width == valid.shape[-1] else valid.any(-1, keepdim=True)
    value_weights = weigh(value_valid.unsqueeze(-1)).squeeze(-1)[..., :width]
    weights = Weights(
        policy=weigh(valid_at_level(valid, entries, config.logprob_type)),
        entropy=weigh(valid_at_level(valid, entries, config.entropy_type)),
        value=value_weights,
    )
    return Samples(
        old_logprobs=trajectory.logprobs.flatten(0, 1),
        old_values=trajectory.values.flatten(0, 1),
        reference_logprobs=None,
        advantages=advantages.advantages.flatten(0, 1),
        returns=advantages.returns.flatten(0, 1),
        valid=valid.flatten(0, 1),
        row=trajectory.sample_index.flatten(),
        weights=weights.flat(),
        inputs=trajectory.inputs,
        replay=trajectory.replay,
    )


def minibatches(
    samples: Samples, size: int, *, seed: int, update: int, epoch: int
) -> Iterator[Tensor]:
    """Places of each minibatch of one epoch, int64 `[<= size]`, invalid ones dropped.

    All places are permuted, cut into minibatches and only then thinned out: so each minibatch is
    what a masked one would be, and its composition depends on the key and the number of places
    alone. A remainder below half a minibatch joins the one before it: a step of full length
    on a handful of samples is mostly noise. Minibatches without a valid sample are skipped.
    """
    order = torch.from_numpy(generator(seed, "shuffle", update, epoch).permutation(len(samples)))
    trained = samples.trained
    cuts = list(order.split(size))
    if len(cuts) > 1 and 2 * len(cuts[-1]) < size:
        remainder = cuts.pop()
        cuts[-1] = torch.cat([cuts[-1], remainder])
    for places in cuts:
        kept = places[trained[places]]
        if len(kept):
            yield kept
