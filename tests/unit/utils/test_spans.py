"""Recorders of spans: what they hold, and that they are bounded."""

from __future__ import annotations

import time

import pytest

from rlcore.utils.spans import CALLS, OFF, Spans


def test_a_recorder_that_is_off_holds_nothing():
    with OFF.measure("policy", "forward"), OFF.call("update"):
        pass
    assert OFF.take() == ([], 0)


def test_spans_are_times_of_the_common_clock_and_taken_once():
    spans = Spans(on=True)
    before = time.time_ns()
    with spans.measure("policy", "forward"):
        time.sleep(0.01)
    (span,), dropped = spans.take()
    assert span[:2] == ("policy", "forward") and dropped == 0
    assert span.end - span.begin >= 10_000_000
    assert abs(span.begin - before) < 10**9
    assert spans.take() == ([], 0)


def test_spans_of_two_calls_of_take_never_overlap(monkeypatch):
    """Nor do they when the process is interrupted between its two clocks."""
    spans = Spans(on=True)
    with spans.measure("calls", "first"):
        pass
    [first] = spans.take().spans
    late = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: late() - 10**9)
    with spans.measure("calls", "second"):
        pass
    [second] = spans.take().spans
    assert first.end <= second.begin


def test_a_block_that_raises_is_recorded():
    spans = Spans(on=True)
    with pytest.raises(KeyError), spans.measure("policy", "forward"):
        raise KeyError
    assert len(spans.take().spans) == 1


def test_equal_spans_in_a_row_are_one_if_grouped():
    spans = Spans(on=True)
    for name in ("critic", "critic", "policy", "critic"):
        with spans.measure("learner", name, group=True):
            pass
    with spans.measure("learner", "critic"):
        pass
    found = [(span.name, span.repeats) for span in spans.take().spans]
    assert found == [("critic", 2), ("policy", 1), ("critic", 1), ("critic", 1)]


def test_the_time_between_two_calls_is_a_wait_for_the_driver():
    spans = Spans(on=True)
    for method in ("update", "save"):
        with spans.call(method):
            pass
    update, wait, save = spans.take().spans
    assert [span.name for span in (update, wait, save)] == ["update", "wait for the driver", "save"]
    assert {span.row for span in (update, wait, save)} == {CALLS}
    assert update.end <= wait.begin <= wait.end <= save.begin


def test_a_full_recorder_counts_what_it_drops():
    spans = Spans(on=True, limit=2)
    for _ in range(5):
        with spans.measure("policy", "forward"):
            pass
    taken = spans.take()
    assert (len(taken.spans), taken.dropped) == (2, 3)
    with spans.measure("policy", "forward"):
        pass
    assert (len(spans.take().spans), taken.dropped) == (1, 3)
