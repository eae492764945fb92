"""Turn a trajectory into training samples: one per chunk, in canonical order, with weights.

Every rank has the small arrays (log-probs, advantages) of all ranks; only the rank that collected a
sample has its inputs.
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
    """A whole batch as one minibatch of P = T N places.

    The sample of chunk t in column n is at place t N + n; places without a decision are invalid.
    `samples[places]` takes a minibatch from it.

    Attributes:
        row: int64 `[P]`, row of the sample in `inputs` and `replay` of this rank; -1 if this rank
            does not have it.
        inputs, replay: `{name: [M, ...]}`, the M rows of this rank.
    """

    row: Tensor
    inputs: dict[str, Tensor]
    replay: dict[str, Tensor]

    @property
    def trained(self) -> Tensor:
        """Return a mask bool `[P]`: samples with at least one action that is trained on."""
        return self.valid.any(-1)


def make_samples(
    trajectory: Trajectory, advantages: Advantages, config: PolicyGradientConfig
) -> Samples:
    """Flatten a batch `[T, N, ...]` to samples and compute the weights of its elements."""
    entries = trajectory.shape[-1]
    valid = advantages.valid

    def weigh(elements: Tensor) -> Tensor:
        return batch_weights(elements, trajectory.episode, config.loss_agg_func)

    width = trajectory.values.shape[-1]
    # a value per chunk is valid if any action of the chunk is, a value per action if its action is
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
    """Yield the places of each minibatch of one epoch, int64 `[K]`, without invalid places.

    All places are permuted and cut into minibatches of `size`, then invalid places are dropped. So
    the composition of a minibatch depends on the key (seed, update, epoch) and the number of places
    alone. A last minibatch of less than half of `size` joins the one before, because a full
    optimizer step on few samples is mostly noise. Minibatches without a valid place are skipped.
    """
    order = torch.from_numpy(generator(seed, "shuffle", update, epoch).permutation(len(samples)))
    trained = samples.trained
    cuts = list(order.split(size))
    if len(cuts) > 1 and 2 * len(cuts[-1]) < size:
        remainder = cuts.pop()
        cuts[-1] = torch.cat([cuts[-1], remainder])
    for places in cuts:
        trained_places = places[trained[places]]
        if len(trained_places):
            yield trained_places
