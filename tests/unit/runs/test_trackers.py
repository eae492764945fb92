"""Metrics reach the log and the trackers, whatever a tracker does."""

import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest

from rlcore.config.schema import LoggerConfig
from rlcore.contracts.errors import PluginError, RunWarning
from rlcore.plugins.registry import Registry
from rlcore.runs import tracker_thread
from rlcore.runs.folder import RunFolder
from rlcore.runs.trackers import (
    LostFileWarning,
    MetricsLog,
    Trackers,
    open_trackers,
    read_metrics,
)


class Recorder:
    """A tracker that remembers, and fails at a given step."""

    def __init__(self, fail_at=None, fail=None):
        self.seen = []
        self.closed = False
        self.failed = False
        self._fail_at = fail_at
        self._fail = fail

    def log(self, metrics, step):
        if step == self._fail_at:
            self.failed = True
            self._fail()
        self.seen.append((step, dict(metrics)))

    def close(self):
        self.closed = True


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path, "run")


def config(*names):
    return LoggerConfig(logger_backends=list(names), project_name="project")


def test_log_is_valid_json_whatever_the_numbers(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log({"a": 1.5, "b": float("nan"), "c": float("inf"), "d": 3}, step=4)
    # flushed: readable before the log is closed
    line = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert {key: line[key] for key in "abcd"} == {"a": 1.5, "b": None, "c": None, "d": 3.0}
    assert line["step"] == 4
    assert line["time"] > 1.7e9
    log.close()


def test_log_goes_on_and_survives_a_cut_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        log = MetricsLog(path)
        log.log({"a": step}, step)
        log.close()
    with path.open("a") as file:
        file.write('{"step": 3, "a"')
    assert [line["a"] for line in read_metrics(path)] == [1.0, 2.0]


def test_a_metric_larger_than_a_float_is_refused(refused, folder):
    folder.metrics.write_text(f'{{"step": 1, "a": 1{"0" * 400}}}\n')
    with refused(ValueError, "line 1", "a must"):
        read_metrics(folder.metrics)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_log_is_restored(tmp_path, replaced):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.log({"a": 1}, 1)
    path.unlink()
    if replaced:  # as editors save
        path.write_text("{}\n")
    log.log({"a": 2}, 2)
    with pytest.warns(LostFileWarning, match="metrics.jsonl"):
        log.sync()
    log.log({"a": 3}, 3)
    log.close()
    assert [line["a"] for line in read_metrics(path)] == [1.0, 2.0, 3.0]


def test_a_log_is_not_written_through_a_hard_link(tmp_path):
    path = tmp_path / "metrics.jsonl"
    backup = tmp_path / "backup.jsonl"
    log = MetricsLog(path)
    log.log({"a": 1}, 1)
    log.close()
    os.link(path, backup)  # as `cp -al` copies a run
    log = MetricsLog(path)
    log.log({"a": 2}, 2)
    log.sync()
    log.close()
    assert [line["a"] for line in read_metrics(path)] == [1.0, 2.0]
    assert [line["a"] for line in read_metrics(backup)] == [1.0]


def test_steps_that_will_be_repeated_are_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.log({"a": 1}, 1)
    size = path.stat().st_size
    log.log({"a": 2}, 2)
    log.cut(size)
    log.log({"a": 3}, 2)
    log.sync()
    log.cut(10 * size)  # there is no more
    log.close()
    assert [line["a"] for line in read_metrics(path)] == [1.0, 3.0]


def test_unknown_tracker_is_an_error(refused, folder):
    with refused(PluginError, "'tensorbord'", "'tensorboard'", text=False):
        open_trackers(config("tensorbord"), folder, Registry.load())


def has_ended(name):
    return f"tracker {name}" not in {thread.name for thread in threading.enumerate()}


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Clock:
    """The clock by which calls of trackers are judged: it stands still unless it is moved."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(tracker_thread, "time", self)

    def monotonic(self):
        return self.now


def gone():
    raise ConnectionError("gone")


def leave():
    raise SystemExit(0)


@pytest.mark.parametrize("fail", [gone, leave])
def test_a_tracker_that_fails_is_switched_off(folder, fail):
    broken = Recorder(fail_at=2, fail=fail)
    well = Recorder()
    trackers = Trackers(MetricsLog(folder.metrics))
    trackers.add("broken", lambda: broken)
    trackers.add("well", lambda: well)
    trackers.log({"a": 1.0}, step=1)
    trackers.log({"a": 2.0}, step=2)
    wait_for(lambda: has_ended("broken"))
    with pytest.warns(RunWarning, match="'broken' failed at step 2"):
        trackers.log({"a": 3.0}, step=3)
    trackers.close()
    assert [step for step, _ in broken.seen] == [1]
    assert [step for step, _ in well.seen] == [1, 2, 3]
    assert [line["step"] for line in read_metrics(folder.metrics)] == [1, 2, 3]
    assert well.closed


def test_a_failure_of_the_last_step_is_reported_at_the_end(folder):
    trackers = Trackers(MetricsLog(folder.metrics))
    trackers.add("broken", lambda: Recorder(fail_at=1, fail=gone))
    trackers.log({"a": 1.0}, step=1)
    with pytest.warns(RunWarning, match="'broken'.*ConnectionError"):
        trackers.close()


def test_a_tracker_that_hangs_is_switched_off(folder, monkeypatch):
    """It is not waited for: the log and the others go on."""
    clock = Clock(monkeypatch)
    forever = threading.Event()
    hanging = Recorder(fail_at=1, fail=forever.wait)
    well = Recorder()
    trackers = Trackers(MetricsLog(folder.metrics), patience=60)
    trackers.add("hanging", lambda: hanging)
    trackers.log({"a": 1.0}, step=1)
    wait_for(lambda: hanging.failed)
    clock.now += 61  # longer than it may take
    trackers.add("well", lambda: well)
    with pytest.warns(RunWarning, match="'hanging'.* step 1 .* 60 s"):
        trackers.log({"a": 2.0}, step=2)
    trackers.log({"a": 3.0}, step=3)
    trackers.close()
    forever.set()
    assert [step for step, _ in well.seen] == [2, 3]
    assert well.closed
    assert [line["step"] for line in read_metrics(folder.metrics)] == [1, 2, 3]


def test_many_values_at_once_are_no_reason_to_switch_a_tracker_off(folder):
    """As after supervised training, which logs all its steps at the end."""

    class Unhurried(Recorder):
        def log(self, metrics, step):
            time.sleep(1e-4)
            super().log(metrics, step)

    unhurried = Unhurried()
    steps = range(3000)
    with Trackers(MetricsLog(folder.metrics), patience=60) as trackers:
        trackers.add("unhurried", lambda: unhurried)
        for step in steps:
            trackers.log({"a": 1.0}, step=step)
    assert [step for step, _ in unhurried.seen] == list(steps)


@pytest.mark.parametrize(
    ("make", "patience", "words"),
    [(threading.Event().wait, 0.2, ["0.2 s"]), (leave, 60, ["SystemExit"])],
    ids=["hangs", "leaves"],
)
def test_a_tracker_that_does_not_start_is_refused(refused, folder, make, patience, words):
    trackers = Trackers(MetricsLog(folder.metrics), patience=patience)
    with refused(PluginError, "'late'", *words):
        trackers.add("late", make)


def test_a_tracker_that_does_not_close_is_abandoned(folder):
    forever = threading.Event()
    slow = Recorder()
    slow.close = forever.wait
    trackers = Trackers(MetricsLog(folder.metrics), patience=2)
    trackers.add("slow", lambda: slow)
    with pytest.warns(RunWarning, match="'slow'"):
        trackers.close()
    forever.set()


def test_a_tracker_changes_only_its_own_copy(folder):
    class Greedy(Recorder):
        def log(self, metrics, step):
            super().log(metrics, step)
            metrics.clear()

    greedy = Greedy()
    well = Recorder()
    with Trackers(MetricsLog(folder.metrics)) as trackers:
        trackers.add("greedy", lambda: greedy)
        trackers.add("well", lambda: well)
        trackers.log({"a": 1.0}, step=1)
    assert well.seen == [(1, {"a": 1.0})]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_of_the_file():
    log = MetricsLog(Path("/dev/full"))
    with pytest.raises(OSError) as at_log:
        log.log({"loss": 1.0}, step=1)
    with pytest.raises(OSError) as at_close:  # writes the buffered line again
        log.close()
    for error in (at_log.value, at_close.value):
        assert (error.errno, error.filename) == (errno.ENOSPC, "/dev/full")
