"""Schedule the episodes of a rollout or an evaluation. Uses only numpy; depends on no worker.

A *column* is a list of episodes that one row of a vector env plays back to back: one episode or,
with auto_reset, as many as fit into the column's chunks. Columns are in canonical order (sorted by
address), and their numbers in that order identify them everywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlcore.config.schema import EnvConfig, VideoConfig
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode

RUN = 8  # approximate number of columns of a task that :func:`deal` assigns together


@dataclass(frozen=True)
class Column:
    """A column of a rollout.

    Attributes:
        number: number of the column in canonical order.
        episodes: episodes that one row plays, in order; with auto_reset, the most that can fit.
    """

    number: int
    episodes: tuple[Episode, ...]

    @property
    def task(self) -> int:
        """Return the task of the first episode; with auto_reset, later episodes may have others."""
        return self.episodes[0].task


@dataclass(frozen=True)
class DemonstratedStarts:
    """Starts of demonstrations, at which some episodes of an update begin.

    Attributes:
        share: probability that an episode begins at one of its task, in (0, 1].
        trials: trial numbers of the demonstrations of each task of the env; a task may have none.
    """

    share: float
    trials: Sequence[Sequence[int]]


def groups_per_update(config: EnvConfig, group_size: int) -> int:
    """Return the number of groups of an update of `total_num_envs * rollout_epoch` columns."""
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
    demonstrated: DemonstratedStarts | None = None,
) -> list[Column]:
    """Return the columns of one update, or of some of its groups, with balanced tasks.

    Tasks come from keyed permutations of all n tasks, so that the first episodes of the groups
    visit any two tasks equally often up to one. With weights w, each permutation contains task i
    floor or ceil of `n w_i / sum(w)` times. Trials are keyed draws from the split's range. The
    `group_size` columns of a group share (task, trial) and differ in replica. The episodes do not
    depend on how the groups of an update are split into ranges. Column numbers of a range begin at
    `groups.start * group_size`.

    Args:
        update: number of updates done before.
        num_action_chunks: actions executed per decision.
        groups: range of group numbers, which may exceed those of the update, for refills; None: the
            groups 0 to :func:`groups_per_update` - 1.
        weights: weight of each task, at least 0 and not all 0; None: all equal.
        demonstrated: starts at which some episodes begin, in place of the drawn trial; the others
            are the same as without.
    """
    if groups is None:
        groups = range(groups_per_update(config, group_size))
    # the most episodes that fit with auto_reset, as an episode takes at least one chunk
    length = config.chunks_per_column(num_action_chunks) if config.auto_reset else 1
    replicas: Counter[tuple[int, int]] = Counter()  # episodes so far with each (task, trial)
    drawn: list[tuple[Episode, ...]] = []
    for group in range(groups.stop):
        starts = [
            _start(spec, config, seed, update, group, k, weights, demonstrated)
            for k in range(length)
        ]
        for _ in range(group_size):
            episodes = []
            for task, trial in starts:
                replica = replicas[task, trial]
                replicas[task, trial] += 1
                episodes.append(Episode(task, trial, replica, group if group_size > 1 else -1))
            if group in groups:
                drawn.append(tuple(episodes))
    first = groups.start * group_size
    return [Column(number, episodes) for number, episodes in enumerate(sorted(drawn), first)]


def evaluation_columns(spec: EnvSpec, config: EnvConfig) -> list[Column]:
    """Return one column for each (task, trial) of the protocol and each of `rollout_epoch` passes.

    The columns do not depend on the number of envs. Passes are replicas: they share the start, but
    the policy's noise has different keys.
    """
    trials = spec.trials(config.split)[: config.trials_per_task]
    episodes = [
        Episode(task, trial, replica)
        for task in range(len(spec.tasks))
        for trial in trials
        for replica in range(config.rollout_epoch)
    ]
    return [Column(number, (episode,)) for number, episode in enumerate(episodes)]


def filmed_columns(columns: Sequence[Column], video: VideoConfig) -> frozenset[int]:
    """Return the numbers of the columns to film, evenly spaced in the list.

    Columns are sorted by task, so the choice covers the tasks, and probably both successes and
    failures. Equal lists give equal choices, so a start that is filmed before training is filmed
    after it too.
    """
    count = min(video.num_episodes, len(columns)) if video.save_video else 0
    return frozenset(columns[i * len(columns) // count].number for i in range(count))


def deal(columns: Sequence[Column], hands: int) -> list[list[Column]]:
    """Distribute columns over `hands` (env worker, stage) pairs.

    The numbers of columns of any two pairs differ by at most one, and each pair gets few tasks.
    A process must load a task before it plays it, which can take as long as an episode. So the
    columns of a task are assigned in runs of about :data:`RUN`, which share the loading. Whole
    tasks are not assigned to one pair, because a pair with only slow tasks would make the others
    wait.

    Returns:
        The columns of each pair.
    """
    columns_of_task: dict[int, list[Column]] = {}
    for column in columns:
        columns_of_task.setdefault(column.task, []).append(column)
    runs: list[list[Column]] = []
    for task_columns in columns_of_task.values():
        runs += _cut(task_columns, max(1, round(len(task_columns) / RUN)))
    ordered = [column for hand in range(hands) for run in runs[hand::hands] for column in run]
    return _cut(ordered, hands)  # runs differ in length, so a run may be split between two pairs


def _cut(columns: Sequence[Column], parts: int) -> list[list[Column]]:
    """Split into consecutive parts whose lengths differ by at most one, the longer ones first."""
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
    demonstrated: DemonstratedStarts | None,
) -> tuple[int, int]:
    """Return (task, trial) of the k-th episode of a group's columns."""
    tasks = len(spec.tasks)
    turn, place = divmod(group + k, tasks)
    order = generator(seed, "tasks", update, turn).permutation(tasks)
    trials = spec.trials(config.split)
    draw = generator(seed, "trials", update, group, k).integers(len(trials))
    task = int(order[place])
    if weights is not None:
        offset = generator(seed, "task weights", update, turn).random()
        task = _in_proportion(weights, offset)[task]
    if demonstrated is not None and demonstrated.trials[task]:
        known = demonstrated.trials[task]
        own = generator(seed, "demonstrated starts", update, group, k)
        if own.random() < demonstrated.share:
            return task, known[int(own.integers(len(known)))]
    return task, trials[int(draw)]


def _in_proportion(weights: Sequence[float], offset: float) -> list[int]:
    """Draw n tasks, one for each of n weights, by systematic sampling.

    Task i is drawn floor or ceil of `n w_i / sum(w)` times, and exactly that often on average over
    `offset` in [0, 1). With equal weights, each task is drawn once.

        task of place j: the least i with  sum_{k <= i} w_k > (offset + j) sum(w) / n
    """
    count = len(weights)
    ends = np.cumsum(weights)
    marks = (offset + np.arange(count)) * (ends[-1] / count)
    # rounding may put the last mark beyond all weights
    last = max(i for i, weight in enumerate(weights) if weight > 0)
    return np.minimum(np.searchsorted(ends, marks, side="right"), last).tolist()
