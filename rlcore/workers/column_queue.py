"""Choose the column that a row of a vector env plays next.

A simulator process must load a task before it plays it, which takes seconds. The columns of a task
therefore go to one process, as long as no row idles for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rlcore.rollout.schedule import Column


class ColumnQueue:
    """Queue of the columns that are not yet assigned. A row gets the next column of

    1. a task that its process has begun, or else
    2. a task that no process has begun; each process prefers the same tasks in every queue, as it
       may still have them loaded, or else
    3. the task with the most columns left.

    With one process the order is that of `columns`, provided that columns of a task are adjacent.

    Args:
        columns: the columns to play.
        hosts: number of the simulator process of each row.
    """

    def __init__(self, columns: Sequence[Column], hosts: Sequence[int]) -> None:
        self._left: dict[int, deque[Column]] = {}
        for column in columns:
            self._left.setdefault(column.task, deque()).append(column)
        # places, not task numbers: if the queue holds every fourth task, their numbers are all
        # congruent modulo four processes
        self._places = {task: place for place, task in enumerate(sorted(self._left))}
        self._hosts = hosts
        self._begun: dict[int, list[int]] = {host: [] for host in hosts}

    def take(self, row: int) -> Column | None:
        """Remove and return the next column for a row, or None if no column is left."""
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
        """Return the task that a process plays next."""
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
