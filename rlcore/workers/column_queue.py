"""Choose the column that a row of a vector env plays next. Knows no env and no policy.

A process has to load a task before it plays it, which takes seconds. So the columns of a task go to
one process as long as that keeps no row idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rlcore.rollout.schedule import Column


class ColumnQueue:
    """Columns that are left. A row gets the next one of

    1. a task that its process has begun,
    2. a task that no process has begun; a process prefers the same ones each time, as it may still
       have them loaded,
    3. the task with most columns left.

    With one process that is the order in which they stand, if those of a task stand together.

    Args:
        columns: to be played.
        hosts: the process of each row, by number.
    """

    def __init__(self, columns: Sequence[Column], hosts: Sequence[int]) -> None:
        self._left: dict[int, deque[Column]] = {}
        for column in columns:
            self._left.setdefault(column.task, deque()).append(column)
        # not their numbers: a deal may give one queue every fourth task, for four processes
        self._places = {task: place for place, task in enumerate(sorted(self._left))}
        self._hosts = hosts
        self._begun: dict[int, list[int]] = {host: [] for host in hosts}

    def take(self, row: int) -> Column | None:
        """The next column of a row; None if none is left."""
        if not self._left:
            return None
        host = self._hosts[row]
        task = self._choose(host)
        if task not in self._begun[host]:
            self._begun[host].append(task)
        columns = self._left[task]
        column = columns.popleft()
        if not columns:
            del self._left[task]
        return column

    def _choose(self, host: int) -> int:
        for task in self._begun[host]:
            if task in self._left:
                return task
        begun = {task for tasks in self._begun.values() for task in tasks}
        unbegun = [task for task in self._left if task not in begun]
        if unbegun:
            number = sorted(self._begun).index(host)
            own = (t for t in unbegun if self._places[t] % len(self._begun) == number)
            return next(own, unbegun[0])
        return max(self._left, key=lambda task: len(self._left[task]))
