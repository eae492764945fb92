"""Explore at several scales at once.

    shift of an episode   scale x spread of the demonstrations' actions x N(0, 1), for each entry

Each training episode draws its scale (:class:`rlcore_off_policy.arms.Arms`). Legend: B rows, C
actions of a chunk, A entries of an action, D frames of demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from rlcore.contracts.protocols import Learning, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore_off_policy.arms import UNUSED, Arms, episodes_of

FRAMES = 512
"""Most frames of demonstrations from which their spread is estimated."""
NO_SPREAD = (
    "algorithm.explore has no effect: the actions of the demonstrations' frames do not vary within "
    "a demonstration; give more frames of each (a smaller collect.stride), or set "
    "algorithm.explore=[]"
)


class Exploration(nn.Module):
    """An offset of all actions of a training episode, at a scale that is drawn for the episode.

    It has no parameters. Its buffers reach the rollout workers with the weights.

    Args:
        scales: scales, in units of the spread of the demonstrations' actions.
        entries: A.

    Attributes:
        scales: draws the scale of an episode.
        spread: float32 `[A]`, in the env's units; 0, so that nothing is explored, until the first
            update has seen demonstrations.
    """

    spread: Tensor

    def __init__(self, scales: Sequence[float], entries: int) -> None:
        super().__init__()
        self.scales = Arms(scales, "explore")
        self.register_buffer("spread", torch.zeros(entries))

    def explored(self, output: PolicyOutput, keys: RowKeys, tasks: Sequence[str]) -> PolicyOutput:
        """Return an output whose actions have the offset of their episode.

        Rows that are no decisions of training episodes stay as they are.

        Args:
            tasks: names of the env's tasks.
        """
        number, training = self.scales.draw(keys, tasks)
        spread = self.spread.cpu()
        size = self.scales.values.cpu()[number] * training
        normal = torch.from_numpy(episodes_of(keys).normal("offset", (1, len(spread))))
        offset = size[:, None, None] * spread * normal
        used = training & bool(spread.any())
        recorded = {self.scales.name: torch.where(used, number, UNUSED)}
        actions = output.actions + offset.numpy()
        return replace(output, actions=actions, replay={**output.replay, **recorded})

    def learn(self, learning: Learning) -> None:
        """Measure the spread if that was not done, and move the chances by the last rollout."""
        self.scales.learn(learning)
        if learning.replay.count("demonstrations") and not self.spread.any():
            self.spread.copy_(demonstrated_spread(learning))
            learning.warnings["explore"] = "" if self.spread.any() else NO_SPREAD
        learning.statistics["train/explore/spread"] = float(self.spread.mean())


def demonstrated_spread(learning: Learning) -> Tensor:
    """Estimate :func:`spread_of_demonstrations` `[A]` from at most :data:`FRAMES` drawn frames."""
    frames = learning.replay.count("demonstrations")
    return spread_of_demonstrations(
        learning, learning.sample(min(FRAMES, frames), "demonstrations")
    )


def spread_of_demonstrations(learning: Learning, rows: Tensor) -> Tensor:
    """Return the standard deviation `[A]` of the actions of demonstrations' frames `[D]`.

    It is that about the mean of the frames of the same demonstration, since an entry that is
    constant in each task, such as an open gripper, is none to explore in. Few frames of each
    demonstration make no difference: the sum of squares is divided by its degrees of freedom, D
    minus the number of demonstrations.
    """
    actions = learning.replay.action_targets(rows)[0][:, 0].double().cpu()
    _, group = learning.replay.demonstration(rows).unique(return_inverse=True)
    count = group.bincount()[:, None]
    mean = torch.zeros(len(count), actions.shape[1]).double().index_add(0, group, actions) / count
    squares = (actions - mean[group]).square().sum(0)
    return (squares / max(len(rows) - len(count), 1)).sqrt().float()
