"""The success of the policy as it samples in training, beside the deterministic one."""

from __future__ import annotations

import json
from pathlib import Path

from resume_cases import COMMON, go_on, play
from sameness import numbers

from rlcore.runs.tables import read_results

TOLD = [*COMMON, "runner.val_sampling=true", "runner.max_epochs=1"]


def test_it_is_measured_before_training_and_once(log_path: Path):
    run = play(log_path, "run", *TOLD)
    before = read_results(run / "eval/before.parquet")
    file = run / "eval/sampling/before.parquet"
    sampled = read_results(file)
    starts = [[(row.task, row.trial) for row in rows] for rows in (before, sampled)]
    assert starts[0] == starts[1] and {row.sampling for row in sampled} == {"stochastic"}
    assert {row.sampling for row in before} == {"deterministic"}
    returns = [[row.episode_return for row in rows] for rows in (before, sampled)]
    assert returns[0] != returns[1]
    rate = sum(row.success for row in sampled) / len(sampled)
    (line,) = [line for line in numbers(run) if "eval/sampling/success_once" in line]
    assert line["step"] == 0 and abs(line["eval/sampling/success_once"] - rate) < 1e-9
    summary = json.loads((run / "summary.json").read_text())
    assert abs(summary["success_sampling"]["rate"] - rate) < 1e-6
    written = file.stat().st_mtime_ns
    go_on(run, "runner.max_epochs=2")
    assert file.stat().st_mtime_ns == written
    resumed = json.loads((run / "summary.json").read_text())
    assert resumed["success_sampling"] == summary["success_sampling"]
