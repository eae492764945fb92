"""Explore at several scales at once, and draw those that succeed more often.

    shift of an episode   scale x spread of the demonstrations' actions x N(0, 1), for each entry
    scale of an episode   one of K, drawn with the chances p of its task
    chances               p <- (p + q) / 2 after each rollout, q from the success at each scale

Each task has its own chances: one that needs precision succeeds only where little is explored, and
one that the policy never solves only where much is. Legend: B rows, C actions of a chunk, A entries
of an action, K scales, D frames of demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.metric import Metrics
from rlcore.contracts.protocols import Learning, PolicyOutput
from rlcore.contracts.rng import DecisionKey, RowKeys

SCALE = "explored"
"""Name of the scale's number in :attr:`rlcore.contracts.protocols.PolicyOutput.replay`."""
TASKS = 256
"""Tasks with chances of their own; the number of a task is taken modulo this."""
FRAMES = 512
"""Most frames of demonstrations from which their spread is estimated."""


class Exploration(nn.Module):
    """An offset of all actions of a training episode, at a scale that is drawn for the episode.

    It has no parameters. Its buffers reach the rollout workers with the weights.

    Args:
        scales: K scales, in units of the spread of the demonstrations' actions.
        entries: A.

    Attributes:
        scales: float32 `[K]`.
        spread: float32 `[A]`, in the env's units; 0, so that nothing is explored, until the first
            update has seen demonstrations.
        chances: float64 `[TASKS, K]`; those of a task add up to 1.
    """

    scales: Tensor
    spread: Tensor
    chances: Tensor

    def __init__(self, scales: Sequence[float], entries: int) -> None:
        super().__init__()
        self.register_buffer("scales", torch.tensor(scales), persistent=False)
        self.register_buffer("spread", torch.zeros(entries))
        chances = torch.full((TASKS, len(scales)), 1 / len(scales), dtype=torch.float64)
        self.register_buffer("chances", chances)

    def explored(self, output: PolicyOutput, keys: RowKeys) -> PolicyOutput:
        """Return an output whose actions have the offset of their episode.

        Rows that are no decisions of training episodes stay as they are.
        """
        training = []
        tasks = []
        for key in keys.keys:
            explores = isinstance(key, DecisionKey) and key.phase == "train"
            training.append(explores)
            tasks.append(key.task % TASKS if isinstance(key, DecisionKey) else 0)
        # without the number of the decision, so that all of an episode draw the same
        episodes = RowKeys(tuple(key[:-1] for key in keys.keys))
        drawn = torch.from_numpy(episodes.uniform("scale", ()))
        ends = self.chances.cpu()[tasks].cumsum(1)
        number = (drawn[:, None] >= ends[:, :-1]).sum(1)
        size = self.scales.cpu()[number] * torch.tensor(training)
        normal = torch.from_numpy(episodes.normal("explore", (1, len(self.spread))))
        offset = size[:, None, None] * self.spread.cpu() * normal
        return replace(
            output,
            actions=output.actions + offset.numpy(),
            replay={**output.replay, SCALE: number},
        )

    def learn(self, learning: Learning) -> None:
        """Measure the spread if that was not done, and move the chances by the last rollout."""
        counts = episodes_by_scale(learning, len(self.scales))
        played = torch.arange(len(counts)) % TASKS
        if self.spread.any():
            earlier = self.chances.cpu()[played]
            self.chances[played] = ((earlier + better(counts)) / 2).to(self.chances.device)
        elif learning.replay.count("demonstrations"):
            rows = learning.sample(
                min(FRAMES, learning.replay.count("demonstrations")), "demonstrations"
            )
            self.spread.copy_(spread_of_demonstrations(learning, rows))
        scale = self.chances.cpu()[played] @ self.scales.cpu().double()
        learning.statistics["train/explore/scale"] = float(scale.mean())
        learning.statistics["train/explore/spread"] = float(self.spread.mean())


def episodes_by_scale(learning: Learning, scales: int) -> Tensor:
    """Return (episodes, successes) of the rollout by task and scale, float64 `[tasks, K, 2]`."""
    rollout = learning.rollout
    valid = rollout.valid.any(-1)
    # an episode counts where its last decision is; only that has an end
    ended = (rollout.terminated | rollout.truncated).any(-1) & valid
    local = ended & (rollout.sample_index >= 0)
    number = torch.full_like(rollout.sample_index, -1)
    number[local] = rollout.replay[SCALE][rollout.sample_index[local]]
    metrics = Metrics()
    tasks = range(len(learning.env.tasks))
    cells = list(product(tasks, range(scales)))
    for task, scale in cells:
        here = local & (rollout.task == task) & (number == scale)
        metrics.add({
            f"episodes/{task}/{scale}": metric.count(here, here),
            f"successes/{task}/{scale}": metric.count(rollout.success, here),
        })  # fmt: skip
    counts = learning.all_reduce(metrics)
    return torch.tensor(
        [[counts[f"{name}/{task}/{scale}"] for name in ("episodes", "successes")]
         for task, scale in cells], dtype=torch.float64,
    ).unflatten(0, (len(tasks), scales))  # fmt: skip


def better(counts: Tensor) -> Tensor:
    """Return the chances `[tasks, K]` that follow from counts of episodes and successes
    `[tasks, K, 2]`.

    A chance is proportional to the success at its scale by Laplace's rule, (s + 1) / (n + 2), which
    keeps a scale that has not succeeded yet.
    """
    episodes, successes = counts.unbind(-1)
    rates = (successes + 1) / (episodes + 2)
    return rates / rates.sum(1, keepdim=True)


def spread_of_demonstrations(learning: Learning, rows: Tensor) -> Tensor:
    """Return the standard deviation `[A]` of the actions of demonstrations' frames `[D]`.

    It is that about the mean of the frames with the same instruction, since an entry that is
    constant in each task, such as an open gripper, is none to explore in.
    """
    actions = learning.replay.action_targets(rows)[0][:, 0].double().cpu()
    words = [
        array.reshape(len(rows), -1).long().cpu()
        for array in learning.replay.inputs(rows).values()
        if not array.is_floating_point() and array.dtype not in (torch.uint8, torch.bool)
    ]
    groups = torch.cat([torch.zeros(len(rows), 1).long(), *words], dim=1)
    _, group = groups.unique(dim=0, return_inverse=True)
    count = group.bincount()[:, None]
    mean = torch.zeros(len(count), actions.shape[1]).double().index_add(0, group, actions) / count
    return (actions - mean[group]).square().mean(0).sqrt().float()
