"""Files in the Trace Event Format: what viewers read of finished and of killed runs."""

from __future__ import annotations

import json
from pathlib import Path

from internals import CALLS, Span, Taken

from rlcore.runs.trace_file import TraceFile, Waits


def spans(*pairs: tuple[int, int], row: str = "policy", name: str = "forward") -> Taken:
    """Spans from and to microseconds."""
    return Taken([Span(row, name, 1000 * begin, 1000 * end) for begin, end in pairs], 0)


def test_workers_are_processes_and_rows_are_threads(tmp_path: Path):
    file = TraceFile(tmp_path / "trace.json")
    file.add("driver", spans((5, 7), row="phases", name="rollout"))
    file.add("env worker 0", spans((1, 4), row="stage 0", name="wait for actions"))
    file.add("env worker 0", spans((4, 9), row="stage 1", name="env_chunk"))
    file.close()
    file.close()
    events = json.loads((tmp_path / "trace.json").read_text())
    named = {
        (event["name"], event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["ph"] == "M" and "name" in event["args"]
    }
    assert sorted(named.values()) == ["driver", "env worker 0", "phases", "stage 0", "stage 1"]
    complete = {
        (
            named["process_name", event["pid"], None],
            named["thread_name", event["pid"], event["tid"]],
            event["name"],
            event["cat"],
            event["ts"],
            event["dur"],
        )
        for event in events
        if event["ph"] == "X"
    }
    assert complete == {
        ("driver", "phases", "rollout", "work", 5, 2),
        ("env worker 0", "stage 0", "wait for actions", "wait", 1, 3),
        ("env worker 0", "stage 1", "env_chunk", "work", 4, 5),
    }


def test_the_file_of_a_killed_run_lacks_only_the_closing_bracket(tmp_path: Path):
    file = TraceFile(tmp_path / "trace.json")
    file.add("driver", spans((5, 7), (7, 9)))
    text = (tmp_path / "trace.json").read_text()
    assert [event["ts"] for event in json.loads(f"{text}]") if event["ph"] == "X"] == [5, 7]
    file.close()


def test_adjacent_spans_do_not_overlap_when_rounded_to_microseconds(tmp_path: Path):
    file = TraceFile(tmp_path / "trace.json")
    file.add("driver", Taken([Span("a", "b", 1999, 3001), Span("a", "b", 3001, 4999)], 0))
    file.close()
    events = [one for one in json.loads((tmp_path / "trace.json").read_text()) if one["ph"] == "X"]
    assert [(one["ts"], one["dur"]) for one in events] == [(1, 2), (3, 1)]


def test_a_full_file_counts_what_it_leaves_out(tmp_path: Path):
    file = TraceFile(tmp_path / "trace.json", limit=3)
    file.add("driver", Taken(spans((0, 1), (1, 2)).spans, 4))
    file.add("driver", spans((2, 3), (3, 4)))
    file.close()
    assert (file.spans, file.dropped) == (3, 5)
    assert (
        len([e for e in json.loads((tmp_path / "trace.json").read_text()) if e["ph"] == "X"]) == 3
    )


def test_an_empty_trace_is_an_empty_list(tmp_path: Path):
    TraceFile(tmp_path / "trace.json").close()
    assert json.loads((tmp_path / "trace.json").read_text()) == []


def test_the_worker_that_waited_longest_is_named():
    """Of 10 s the env worker waits 2 s for the driver and, in its two stages, 3 s and 5 s for
    actions: 2 + (3 + 5) / 2 = 6 s. The actor waits 5 s."""
    waits = Waits()
    second = 10**6
    wait = "wait for the driver"
    waits.add("env worker 0", spans((0, 2 * second), row=CALLS, name=wait))
    waits.add("env worker 0", spans((2 * second, 10 * second), row=CALLS, name="converse"))
    for stage, seconds in enumerate((3, 5)):
        row = f"stage {stage}"
        waits.add("env worker 0", spans((0, seconds * second), row=row, name="wait for actions"))
    waits.add("actor worker 0", spans((0, 5 * second), row=CALLS, name=wait))
    assert waits.longest() == "env worker 0 waited longest, 6.0 of 10.0 s"


def test_none_is_named_if_none_waited():
    waits = Waits()
    waits.add("driver", spans((0, 5)))
    assert waits.longest() == ""
