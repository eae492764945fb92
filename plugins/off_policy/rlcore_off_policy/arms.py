"""Let each training episode draw one of several values, and those that succeed more often.

    chances   p <- (p + q) / 2 after each rollout, q proportional to the success of each value;
              those of a task that the rollout did not play stay

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
policy that is evaluated on some of the tasks of its training reads the rows of these tasks."""
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
        counts: float64 `[SLOTS, K, 2]`, episodes and successes of each value; halved before
            episodes of the task are added, since the policy changes.
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
        most at their task, the first one among equals: at a task without episodes, the first of
        all. Rows whose keys name no task, such as those of a served policy, get that of all tasks.

        Args:
            keys: keys of the rows, with the names of the tasks that they number.
            tasks: names of the tasks that are trained, for rows that name none.
        """
        training = torch.tensor([is_training(key) for key in keys.keys])
        drawn = torch.from_numpy(episodes_of(keys).uniform(self.name, ()))
        ends = _of_rows(self.chances, keys, tasks).cumsum(1)
        number = (drawn[:, None] >= ends[:, :-1]).sum(1)
        best = success(_of_rows(self.counts, keys, tasks)).argmax(1)
        return torch.where(training, number, best), training

    def learn(self, learning: Learning) -> None:
        """Move chances and counts of the tasks of which episodes were counted in the last rollout.

        Those of other tasks stay: a rollout that says nothing about a task is no reason to forget.
        """
        by_task = episodes_by_arm(learning, self.name, len(self.values))
        # names of two tasks may share a row of the tables
        rows, row_of_task = slots(learning.env.tasks).unique(return_inverse=True)
        shape = (len(rows), *by_task.shape[1:])
        counts = torch.zeros(shape, dtype=by_task.dtype).index_add(0, row_of_task, by_task)
        played = counts[..., 0].sum(1) > 0
        chances, kept = self.chances.cpu()[rows], self.counts.cpu()[rows]
        rates = success(counts[played])
        chances[played] = (chances[played] + rates / rates.sum(1, keepdim=True)) / 2
        kept[played] = kept[played] / 2 + counts[played]
        self.chances[rows] = chances.to(self.chances.device)
        self.counts[rows] = kept.to(self.counts.device)
        values = self.values.cpu().double()
        best = values[success(kept).argmax(1)]
        learning.statistics[f"train/{self.name}/drawn"] = float((chances @ values).mean())
        learning.statistics[f"train/{self.name}/best"] = float(best.mean())


def slots(tasks: Sequence[str]) -> Tensor:
    """Return the rows of tasks in the tables, int64 `[tasks]`."""
    return torch.tensor([zlib.crc32(task.encode()) % SLOTS for task in tasks], dtype=torch.int64)


def _of_rows(table: Tensor, keys: RowKeys, tasks: Sequence[str]) -> Tensor:
    """Return the entry of each row's task in a table `[SLOTS, ...]`, `[B, ...]` on the host.

    A row whose key names no task gets the mean over `tasks`.
    """
    table = table.cpu()
    mean = table[slots(tasks)].mean(0)
    of_task = table[slots(keys.tasks)]
    named = bool(keys.tasks)
    return torch.stack(
        [of_task[key.task] if named and isinstance(key, DecisionKey) else mean for key in keys.keys]
    )


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
