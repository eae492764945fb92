"""Per-task tables and their two averages, by hand; parquet there and back."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from internals import OtherVersionError

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import Episode
from rlcore.runs.tables import (
    EpisodeResult,
    from_outcomes,
    plain_table,
    read_results,
    success_by_start,
    success_rows,
    write_results,
)


def results(**wins):
    """`task=(successes, episodes)`."""
    return [
        EpisodeResult(task, 100 + i, 0, i < won, float(i < won), 10 + i, "deterministic")
        for task, (won, n) in wins.items()
        for i in range(n)
    ]


def test_averages_by_hand():
    # easy: a 4/4, b 3/4, c 2/4 -> 9/12 = 0.75; hard: d 1/4 = 0.25
    # bucket mean (0.75 + 0.25)/2 = 0.5; task mean (1 + 0.75 + 0.5 + 0.25)/4 = 0.625
    # overall 10/16 = 0.625
    rows = success_rows(
        results(a=(4, 4), b=(3, 4), c=(2, 4), d=(1, 4)),
        {"easy": ("a", "b", "c"), "hard": ("d",), "absent": ("z",)},
    )
    assert [(row.kind, row.label, row.rate, row.n) for row in rows] == [
        ("task", "a", 1.0, 4),
        ("task", "b", 0.75, 4),
        ("task", "c", 0.5, 4),
        ("task", "d", 0.25, 4),
        ("group", "easy", 0.75, 12),
        ("group", "hard", 0.25, 4),
        ("average", "bucket mean", 0.5, 16),
        ("average", "task mean", 0.625, 16),
        ("overall", "all episodes", 0.625, 16),
    ]
    # Wilson 3/4, worked in test_statistics
    assert rows[1].lo == pytest.approx(0.300643, abs=2e-6)
    assert rows[1].hi == pytest.approx(0.954413, abs=2e-6)
    assert rows[6].lo is None  # no interval for an average of rates


def test_task_mean_and_overall_differ_for_unequal_tasks():
    # a 1/1, b 0/3: task mean 0.5, pooled 1/4
    rows = {row.label: row for row in success_rows(results(a=(1, 1), b=(0, 3)))}
    assert set(rows) == {"a", "b", "task mean", "all episodes"}
    assert rows["task mean"].rate == 0.5
    assert rows["all episodes"].rate == 0.25


def test_published_bucket_mean():
    # The MT50 column "Avg" of pi0 + PPO, 92.1 / 74.6 / 61.7 / 84 -> 78.1, is the mean of its four
    # buckets; rebuilt here with 1000 episodes a bucket.
    buckets = {"easy": 921, "medium": 746, "hard": 617, "very_hard": 840}
    rows = success_rows(
        results(**{name: (won, 1000) for name, won in buckets.items()}),
        {name: (name,) for name in buckets},
    )
    mean = next(row for row in rows if row.label == "bucket mean")
    assert round(100 * mean.rate, 1) == 78.1


def test_the_plain_table_has_a_line_per_row():
    rows = success_rows(results(push=(3, 4)), {"easy": ("push",)})
    text = plain_table(rows, "before")
    assert "\x1b" not in text
    assert text.startswith("before")

    def line_of(label):
        return next(line for line in text.splitlines() if f" {label} " in line)

    assert all(line_of(row.label) for row in rows)
    assert "0.301 .. 0.954" in line_of("push")
    assert "0.750" in line_of("bucket mean")
    assert ".." not in line_of("bucket mean")


def test_outcomes_get_their_task_by_name():
    outcome = EpisodeOutcome(Episode(1, 42, 2, group=5), True, 1.5, 30)
    assert from_outcomes([outcome], ("reach", "push"), "stochastic") == [
        EpisodeResult("push", 42, 2, True, 1.5, 30, "stochastic")
    ]


def test_passes_are_ordered_by_their_number():
    rows = results(a=(1, 2))
    again = [replace(row, replica=1, success=not row.success) for row in rows]
    assert success_by_start([*again, *rows]) == {
        ("a", 100): [True, False],
        ("a", 101): [False, True],
    }
    with pytest.raises(ValueError):
        success_by_start([*rows, again[0]])


def test_success_by_start_refuses_an_episode_played_twice():
    assert success_by_start(results(a=(1, 2))) == {("a", 100): [True], ("a", 101): [False]}
    with pytest.raises(ValueError):
        success_by_start(results(a=(1, 2)) + results(a=(1, 1)))


def test_parquet_round_trip(tmp_path):
    path = tmp_path / "eval" / "before.parquet"
    rows = results(a=(1, 3), b=(0, 2))
    write_results(path, rows)
    assert read_results(path) == rows
    table = pq.read_table(path)  # what somebody else's reader sees
    assert table.num_rows == 5
    assert table.schema.field("success").type == pa.bool_()
    assert [p.name for p in path.parent.iterdir()] == ["before.parquet"]
    write_results(path, [])
    assert read_results(path) == []


def test_unreadable_parquet_is_refused(refused, tmp_path):
    path = tmp_path / "x.parquet"
    with refused(CheckpointError, "x.parquet", text=False):
        read_results(path)
    write_results(path, results(a=(1, 3)))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with refused(CheckpointError, "x.parquet", text=False):
        read_results(path)
    # the last of the columns' names, in the first page of `sampling`
    at = whole.index(b"deterministic")
    path.write_bytes(whole[:at] + b"D" + whole[at + 1 :])
    with refused(CheckpointError, "x.parquet", text=False):
        read_results(path)
    pq.write_table(pa.table({"task": ["a"], "reward": [1.0]}), path)
    with refused(OtherVersionError, "x.parquet", "success", text=False):
        read_results(path)
