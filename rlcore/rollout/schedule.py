"""Schedule the episodes of a rollout or an evaluation. Numpy only; knows no worker.

A *column* is a list of episodes run back to back by one row of a vector env: one episode, or
with auto_reset as many as fit into the column's chunks. Columns are in canonical order
(sorted by address), and their numbers in that order identify them everywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlcore.config.schema import EnvConfig, VideoConfig
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode

RUN = 8  # columns of a task that are dealt together


@dataclass(frozen=True)
class Column:
    """Column `number` of a rollout: the episodes one row runs, in order."""

    number: int
    episodes: tuple[Episode, ...]

    @property
    def task(self) -> int:
        """Of its first episode; with auto_reset others may follow."""
        return self.episodes[0].task


def groups_per_update(config: EnvConfig, group_size: int) -> int:
    """Groups whose columns make up one update: `total_num_envs * rollout_epoch` columns."""
    return config.total_num_envs * config.rollout_epoch // group_size


def training_columns(
    spec: EnvSpec,
    config: EnvConfig,
    *,
    seed: int,
    update: int,
    num_action_chunks: int,
    group_size: int = 1,
    groups: range | None = None,
    weights: Sequence[float] | None = None,
) -> list[Column]:
    """Columns of one update, tasks balanced: those of its groups, or of some of them.

    Tasks come from keyed permutations, so that every task is visited equally often up to one, or
    as often as its weight says up to one; trials are keyed draws from the split's range. The
    `group_size` columns of a group share (task, trial) and differ in replica. How the groups of an
    update are cut into ranges makes no difference to the episodes; columns are numbered within a
    range.

    Args:
        groups: by number, also of further ones; None: the :func:`groups_per_update`.
        weights: of each task, 0 or more, not all 0; None: all equal.
    """
    if groups is None:
        groups = range(groups_per_update(config, group_size))
    # with auto_reset the most that fit: an episode takes one chunk at least
    length = config.chunks_per_column(num_action_chunks) if config.auto_reset else 1
    taken: Counter[tuple[int, int]] = Counter()
    drawn: list[tuple[Episode, ...]] = []
    for group in range(groups.stop):
        starts = [_start(spec, config, seed, update, group, k, weights) for k in range(length)]
        for _ in range(group_size):
            episodes = []
            for task, trial in starts:
                replica = taken[task, trial]
                taken[task, trial] += 1
                episodes.append(Episode(task, trial, replica, group if group_size > 1 else -1))
            if group in groups:
                drawn.append(tuple(episodes))
    first = groups.start * group_size
    return [Column(number, episodes) for number, episodes in enumerate(sorted(drawn), first)]


def evaluation_columns(spec: EnvSpec, config: EnvConfig) -> list[Column]:
    """Every (task, trial) of the protocol once per pass, whatever the number of envs. Passes are
    replicas: they share the start, and draw the policy's noise under keys of their own."""
    trials = spec.trials(config.split)[: config.trials_per_task]
    episodes = [
        Episode(task, trial, replica)
        for task in range(len(spec.tasks))
        for trial in trials
        for replica in range(config.rollout_epoch)
    ]
    return [Column(number, (episode,)) for number, episode in enumerate(episodes)]


def filmed_columns(columns: Sequence[Column], video: VideoConfig) -> frozenset[int]:
    """Numbers of the columns to film, spread evenly: over the tasks, as columns stand in their
    order, and so likely over successes and failures. Equal lists give equal choices, so that a
    start filmed before training is filmed after it too."""
    count = min(video.num_episodes, len(columns)) if video.save_video else 0
    return frozenset(columns[i * len(columns) // count].number for i in range(count))


def deal(columns: Sequence[Column], hands: int) -> list[list[Column]]:
    """Columns dealt to `hands` (env worker, stage) pairs: to each as many as to any other, up to
    one, of few tasks.

    A process has to load a task before it plays it, which can take as long as an episode. So the
    columns of a task are dealt in runs of about `RUN`: that many share the loading. They are not
    dealt task by task, as then a hand might get nothing but slow tasks, and all others would wait
    for it.
    """
    of_tasks: dict[int, list[Column]] = {}
    for column in columns:
        of_tasks.setdefault(column.task, []).append(column)
    runs = [run for own in of_tasks.values() for run in _cut(own, max(1, round(len(own) / RUN)))]
    dealt = [column for hand in range(hands) for run in runs[hand::hands] for column in run]
    return _cut(dealt, hands)  # runs differ in length: some reach into the next hand


def _cut(columns: Sequence[Column], parts: int) -> list[list[Column]]:
    """Parts of equal length, up to one, the longer ones first."""
    short, longer = divmod(len(columns), parts)
    ends = [short * part + min(part, longer) for part in range(parts + 1)]
    return [list(columns[ends[part] : ends[part + 1]]) for part in range(parts)]


def _start(
    spec: EnvSpec,
    config: EnvConfig,
    seed: int,
    update: int,
    group: int,
    k: int,
    weights: Sequence[float] | None,
) -> tuple[int, int]:
    """(task, trial) of the k-th episode of a group."""
    tasks = len(spec.tasks)
    turn, place = divmod(group + k, tasks)
    order = generator(seed, "tasks", update, turn).permutation(tasks)
    trials = spec.trials(config.split)
    draw = generator(seed, "trials", update, group, k).integers(len(trials))
    task = int(order[place])
    if weights is not None:
        offset = generator(seed, "task weights", update, turn).random()
        task = _in_proportion(weights, offset)[task]
    return task, trials[int(draw)]


def _in_proportion(weights: Sequence[float], offset: float) -> list[int]:
    """As many tasks as there are weights, each floor or ceil of `n w_i / sum(w)` times, and that
    often on average over `offset` in [0, 1): systematic sampling. Equal weights: each once.

        task of place j: the least i with  sum_{k <= i} w_k > (offset + j) sum(w) / n
    """
    count, ends = len(weights), np.cumsum(weights)
    marks = (offset + np.arange(count)) * (ends[-1] / count)
    last = max(i for i, weight in enumerate(weights) if weight > 0)  # should rounding lead beyond
    return np.minimum(np.searchsorted(ends, marks, side="right"), last).tolist()
