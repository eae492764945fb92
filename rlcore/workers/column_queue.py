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

    1. a task that its process has started, or else
    2. a task that no process has started; each process prefers the same tasks in every queue,
       because it may still have them loaded, or else
    3. the task with the most columns left.

    With one process the order is that of `columns`, provided that columns of a task are adjacent.

    Args:
        columns: the columns to play.
        processes: number of the simulator process of each row.
    """

    def __init__(self, columns: Sequence[Column], processes: Sequence[int]) -> None:
        self._remaining: dict[int, deque[Column]] = {}
        for column in columns:
            self._remaining.setdefault(column.task, deque()).append(column)
        # indices, not task numbers: if the queue holds every fourth task, their numbers are all
        # congruent modulo four processes
        self._task_indices = {task: index for index, task in enumerate(sorted(self._remaining))}
        self._processes = processes
        self._started: dict[int, list[int]] = {process: [] for process in processes}

    def take(self, row: int) -> Column | None:
        """Remove and return the next column for a row, or None if no column is left."""
        if not self._remaining:
            return None
        process = self._processes[row]
        task = self._next_task(process)
        if task not in self._started[process]:
            self._started[process].append(task)
        columns = self._remaining[task]
        column = columns.popleft()
        if not columns:
            del self._remaining[task]
        return column

    def _next_task(self, process: int) -> int:
        """Return the task that a process plays next."""
        for task in self._started[process]:
            if task in self._remaining:
                return task
        started = {task for tasks in self._started.values() for task in tasks}
        new_tasks = [task for task in self._remaining if task not in started]
        if new_tasks:
            number = sorted(self._started).index(process)
            for task in new_tasks:
                if self._task_indices[task] % len(self._started) == number:
                    return task
            return new_tasks[0]
        return max(self._remaining, key=lambda task: len(self._remaining[task]))
