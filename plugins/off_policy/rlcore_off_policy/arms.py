"""Let each training episode draw one of several values, and those that succeed more often.

    chances   p <- (p + q) / 2 after each rollout, q proportional to the success of each value

Each task has its own chances: one that needs precision succeeds with little exploration alone, and
one that the policy never solves with much. Legend: B rows, K values (arms of a bandit).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.metric import Metrics
from rlcore.contracts.protocols import Learning
from rlcore.contracts.rng import DecisionKey, RowKeys

SLOTS = 4096
"""Rows of the tables of chances and counts. A task has the row of its name's checksum, so that a
policy that is evaluated on some of its tasks finds theirs."""
UNUSED = -1
"""Number that is recorded for a decision in which the value had no effect; it is not counted."""


class Arms(nn.Module):
    """Values of which each training episode draws one. They travel and are saved like weights.

    Args:
        values: the K values.
        name: name of the recorded numbers in :attr:`rlcore.contracts.protocols.PolicyOutput.replay`
            and of the random stream.

    Attributes:
        values: float32 `[K]`.
        chances: float64 `[SLOTS, K]`; those of a task add up to 1.
        counts: float64 `[SLOTS, K, 2]`, episodes and successes of each value; halved before a
            rollout is added, since the policy changes.
    """

    values: Tensor
    chances: Tensor
    counts: Tensor

    def __init__(self, values: Sequence[float], name: str) -> None:
        super().__init__()
        self.name = name
        uniform = torch.full((SLOTS, len(values)), 1 / len(values), dtype=torch.float64)
        self.register_buffer("values", torch.tensor(values), persistent=False)
        self.register_buffer("chances", uniform)
        self.register_buffer("counts", torch.zeros(SLOTS, len(values), 2, dtype=torch.float64))

    def draw(self, keys: RowKeys, tasks: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the number of each row's value, int64 `[B]` on the host, and whether the row is of
        a training episode, bool `[B]`.

        All decisions of a training episode get the same. Other rows get the value that succeeded
        most at their task, the first one among equals.

        Args:
            tasks: names of the env's tasks.
        """
        training = torch.tensor([is_training(key) for key in keys.keys])
        rows = slots(tasks)
        numbers = [key.task if isinstance(key, DecisionKey) else 0 for key in keys.keys]
        task = rows[torch.tensor(numbers).clamp(max=len(tasks) - 1)]
        drawn = torch.from_numpy(episodes_of(keys).uniform(self.name, ()))
        ends = self.chances.cpu()[task].cumsum(1)
        number = (drawn[:, None] >= ends[:, :-1]).sum(1)
        best = success(self.counts.cpu()[task]).argmax(1)
        return torch.where(training, number, best), training

    def learn(self, learning: Learning) -> None:
        """Move chances and counts by the last rollout."""
        counts = episodes_by_arm(learning, self.name, len(self.values))
        played = slots(learning.env.tasks)
        rates = success(counts)
        moved = (self.chances.cpu()[played] + rates / rates.sum(1, keepdim=True)) / 2
        self.chances[played] = moved.to(self.chances.device)
        kept = self.counts.cpu()[played] / 2 + counts
        self.counts[played] = kept.to(self.counts.device)
        values = self.values.cpu().double()
        best = values[success(kept).argmax(1)]
        learning.statistics[f"train/{self.name}/drawn"] = float((moved @ values).mean())
        learning.statistics[f"train/{self.name}/best"] = float(best.mean())


def slots(tasks: Sequence[str]) -> Tensor:
    """Return the rows of tasks in the tables, int64 `[tasks]`."""
    return torch.tensor([zlib.crc32(task.encode()) % SLOTS for task in tasks])


def success(counts: Tensor) -> Tensor:
    """Return (s + 1) / (n + 2) `[...]` for (n, s) episodes and successes `[..., 2]`: Laplace's rule
    keeps a value that has not succeeded yet."""
    return (counts[..., 1] + 1) / (counts[..., 0] + 2)


def is_training(key: tuple[int | str, ...]) -> bool:
    """Return whether a key is that of a decision in a training episode."""
    return isinstance(key, DecisionKey) and key.phase == "train"


def episodes_of(keys: RowKeys) -> RowKeys:
    """Return keys without the number of the decision, which all decisions of an episode share."""
    return RowKeys(tuple(key[:-1] for key in keys.keys))


def episodes_by_arm(learning: Learning, name: str, arms: int) -> Tensor:
    """Return (episodes, successes) of the rollout by task and arm, float64 `[tasks, K, 2]`.

    Args:
        name: name of the recorded numbers.
        arms: K.
    """
    rollout = learning.rollout
    # an episode counts where it ends
    ended = ((rollout.terminated | rollout.truncated) & rollout.valid).any(-1)
    local = ended & (rollout.sample_index >= 0)
    number = torch.full_like(rollout.sample_index, UNUSED)
    number[local] = rollout.replay[name][rollout.sample_index[local]]
    metrics = Metrics()
    cells = list(product(range(len(learning.env.tasks)), range(arms)))
    for task, arm in cells:
        here = local & (rollout.task == task) & (number == arm)
        metrics.add({f"episodes/{task}/{arm}": metric.count(here, here)})
        metrics.add({f"successes/{task}/{arm}": metric.count(rollout.success, here)})
    counts = learning.all_reduce(metrics)
    table = [[counts[f"{kind}/{t}/{a}"] for kind in ("episodes", "successes")] for t, a in cells]
    return torch.tensor(table, dtype=torch.float64).unflatten(0, (-1, arms))
