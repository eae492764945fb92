"""`runner.trace=true`: who computed and who waited, as a viewer of traces reads it."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from internals import assemble, compose, train
from slow_parts import slowed
from test_replay_runs import RFT

LOCAL = "cluster.backend=local"
SHORT = [
    *RFT,
    "sft.enabled=false",
    "algorithm.demonstrations=0",
    "env.train.total_num_envs=8",
    "env.eval.trials_per_task=1",
    "runner.max_epochs=3",
    "runner.val_before_train=false",
    "cluster.component_placement={env: 0, rollout: 0, actor: 1}",
]
pytestmark = pytest.mark.usefixtures("two_cores")
WORKERS = {"driver", "env worker 0", "rollout worker 0", "actor worker 0"}


class Seen(NamedTuple):
    """One span of a viewer, in seconds."""

    name: str
    begin: float
    end: float


def read(path: Path) -> dict[tuple[str, str], list[Seen]]:
    """The spans of a trace by the names of process and thread, in order."""
    events = json.loads(path.read_text())
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["name"] in ("process_name", "thread_name")
    }
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            row = names[event["pid"], None], names[event["pid"], event["tid"]]
            begin = event["ts"] / 1e6
            rows[row].append(Seen(event["name"], begin, begin + event["dur"] / 1e6))
    return {row: sorted(spans, key=lambda span: span.begin) for row, spans in rows.items()}


def play(
    log_path: Path, *overrides: str, chunk: float = 0.0, update: float = 0.0
) -> tuple[dict[tuple[str, str], list[Seen]], float]:
    """The trace of a short run, and the seconds that it took."""
    folder = f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=traced"
    assembly = assemble(compose([*SHORT, *folder, "runner.trace=true", *overrides]))
    begin = time.perf_counter()
    train(slowed(assembly, log_path, chunk=chunk, update=update))
    return read(log_path / "traced/trace.json"), time.perf_counter() - begin


def seconds(spans: list[Seen], prefix: str = "") -> float:
    return sum(span.end - span.begin for span in spans if span.name.startswith(prefix))


def assert_consistent(rows: dict[tuple[str, str], list[Seen]], wall: float) -> None:
    """Spans of a row follow each other, and take no longer than the run."""
    assert {worker for worker, _ in rows} == WORKERS
    for row, spans in rows.items():
        for earlier, later in pairwise(spans):
            assert earlier.end <= later.begin + 1e-6, (row, earlier, later)
        assert seconds(spans) <= wall + 1.0, row  # a worker's clock may be that of another node


def test_a_run_in_one_process_has_rows_for_each_worker(log_path: Path, capsys):
    rows, wall = play(log_path, LOCAL)
    assert_consistent(rows, wall)
    for row, expected in {
        ("driver", "phases"): {"start", "rollout", "update", "sync", "checkpoint", "eval_after"},
        ("env worker 0", "stage 0"): {"env_reset", "env_chunk", "wait for actions"},
        ("rollout worker 0", "policy"): {"prepare", "forward", "wait for observations"},
        ("rollout worker 0", "calls"): {
            "converse",
            "send_trajectory",
            "pull",
            "wait for the driver",
        },
        ("actor worker 0", "calls"): {
            "update",
            "publish",
            "receive_trajectory",
            "wait for the driver",
        },
        ("actor worker 0", "learner"): {"train policy"},
    }.items():
        names = {span.name for span in rows[row]}
        assert expected <= names, (row, names)
    assert "waited longest" in capsys.readouterr().out


@pytest.mark.usefixtures("ray_cluster")
def test_a_slow_env_and_the_overlap_of_the_asynchronous_loop_are_seen(log_path: Path, capsys):
    """Chunks take 0.5 s, so the rollout worker, whose forwards take milliseconds, waits most of
    the time of a rollout; and updates go on while episodes are played."""
    ray = "cluster.backend=ray", "runner.loop=async"
    rows, wall = play(log_path, *ray, chunk=0.5, update=2.0)
    assert_consistent(rows, wall)
    policy = rows["rollout worker 0", "policy"]
    rollouts = [span for span in rows["rollout worker 0", "calls"] if span.name == "converse"]
    assert seconds(policy, "wait for observations") > 0.5 * seconds(rollouts)
    chunks = [span for span in rows["env worker 0", "stage 0"] if span.name == "env_chunk"]
    updates = [span for span in rows["actor worker 0", "calls"] if span.name == "update"]
    assert len(updates) == 3
    beside = [
        any(chunk.begin < update.end and update.begin < chunk.end for chunk in chunks)
        for update in updates
    ]
    assert beside == [True, True, False]  # the last update has no rollout beside it


def test_an_untraced_run_writes_no_trace(log_path: Path):
    folder = f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=plain"
    train(assemble(compose([*SHORT, *folder, "runner.max_epochs=1", LOCAL])))
    assert not (log_path / "plain/trace.json").exists()
