"""Which column a row takes next: worked out by hand for small lists."""

from __future__ import annotations

from rlcore.contracts.specs import Episode
from rlcore.rollout.schedule import Column
from rlcore.workers.column_queue import ColumnQueue


def queue(tasks: str, hosts: tuple[int, ...]) -> ColumnQueue:
    """A column for each digit, which is its task."""
    columns = [Column(n, (Episode(int(task), n),)) for n, task in enumerate(tasks)]
    return ColumnQueue(columns, hosts)


def taken(left: ColumnQueue, *rows: int) -> str:
    """Tasks of the columns that rows take one after another; "-" for none."""
    found = [left.take(row) for row in rows]
    return "".join("-" if column is None else str(column.episodes[0].task) for column in found)


def test_one_process_plays_them_in_order() -> None:
    left = queue("001112", (0, 0))
    numbers = [column.number for _ in range(6) if (column := left.take(_ % 2))]
    assert numbers == [0, 1, 2, 3, 4, 5]
    assert left.take(0) is None and left.take(1) is None


def test_the_rows_of_a_process_share_a_task_and_others_begin_another() -> None:
    left = queue("000011112222", (0, 0, 1, 1))
    assert taken(left, 0, 1, 2, 3) == "0011"
    assert taken(left, 3, 0, 0, 1) == "1002"  # task 0 is done: one that nobody has begun
    assert taken(left, 2, 2) == "12"  # all are begun: to help where most is left
    assert taken(left, 0, 1, 3, 0) == "22--"


def test_no_row_waits_while_columns_are_left() -> None:
    assert taken(queue("0000", (0, 1, 2, 3)), 0, 1, 2, 3) == "0000"


def test_each_column_is_taken_once() -> None:
    left = queue("0123401234", (0, 1, 2))
    found = [left.take(row % 3) for row in (0, 2, 1, 1, 1, 2, 0, 0, 2, 1, 0)]
    assert sorted(column.number for column in found if column) == list(range(10))
    assert found[-1] is None


def test_a_process_gets_the_tasks_it_had_the_last_time() -> None:
    """In either order: of tasks 0 to 3, process 0 of two begins the even ones."""
    for first, second in ((0, 1), (1, 0)):
        left = queue("0123", (0, 1))
        begun = {first: taken(left, first), second: taken(left, second)}
        assert begun == {0: "0", 1: "1"}
        assert taken(left, 1, 0) == "32"
