"""Files of a sweep with values of other types: one error that names the file, the key and the
value, whoever wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rlcore_sweeps.job_record import JobRecord
from rlcore_sweeps.pruning import Evaluations, record_evaluation
from rlcore_sweeps.request import SweepRequest
from rlcore_sweeps.resources import find_share
from rlcore_sweeps.study_record import StudyRecord
from rlcore_sweeps.table import text

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError
from rlcore.runs.folder import SWEEP_TABLE

NOTE: dict[str, Any] = {
    "number": 0,
    "words": ["runner.seed=0"],
    "label": "runner.seed=0",
    "folder": "",
    "state": "done",
    "error": "",
    "seconds": 1.5,
    "process": [5, 0.5],
}
RUN = {"job": 0, "seed": None, "folder": "", "value": 0.5, "steps": {"1": 0.5}, "pruned": None}
TRIAL = {
    "number": 0,
    "batch": 0,
    "setting": {"a": 1},
    "state": "complete",
    "value": 1,
    "runs": [RUN],
}
RATE = {"trial": 0, "rate": 0.5, "n": 4, "lo": 0.2, "hi": 0.8, "seeds": [0.5]}
TRIALS: dict[str, Any] = {
    "objective": "x",
    "split": "validation",
    "direction": "maximize",
    "sampler": "tpe",
    "pruner": "none",
    "seed": 0,
    "planned": 1,
    "seeds": [None],
    "trials": [TRIAL],
    "best": 0,
    "heldout": {"best": RATE, "difference": {"mean": 0.1, "lo": 0.0, "hi": 0.2}},
}
SUMMARY: dict[str, Any] = {
    "success_before": None,
    "success_after": {"rate": 0.5, "lo": 0.2, "hi": 1, "n": 4},
    "paired_difference": {"mean": 0.1, "lo": 0.0, "hi": 0.2},
}
OTHERS = [None, 5, "x", [], ["x"], {}, {"x": 1}, True, 0.5]


def written(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def read_all(folder: Path) -> None:
    for record in JobRecord.load_all(folder):
        assert record.folder is not None
    StudyRecord.load(folder)
    Evaluations.load(folder, 0)
    text(folder)


def sweep(folder: Path) -> None:
    """As a finished one would be."""
    run = folder / "run"
    run.mkdir()
    written(folder, ".jobs/0.json", {**NOTE, "folder": str(run)})
    written(folder, "trials.json", TRIALS)
    written(folder, ".study/0.steps.json", {"values": {"1": 0.5}})
    written(run, "summary.json", SUMMARY)


def test_whole_files_are_read(tmp_path):
    sweep(tmp_path)
    read_all(tmp_path)
    assert JobRecord.load(tmp_path, 0).process == (5, 0.5)
    assert StudyRecord.load(tmp_path).trials[0].runs[0].steps == {"1": 0.5}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        (".jobs/0.json", NOTE),
        ("trials.json", TRIALS),
        ("run/summary.json", SUMMARY),
        (".study/0.steps.json", {"values": {"1": 0.5}, "pruned": None, "updates": 3}),
    ],
)
def test_every_value_by_every_type(tmp_path, name, whole):
    """Whatever stands under a key, at any depth: it is read, or one error names file and key."""
    sweep(tmp_path)
    refused = 0
    for content in [*OTHERS, *damaged(whole)]:
        file = written(tmp_path, name, content)
        try:
            read_all(tmp_path)
        except CheckpointError as error:
            refused += 1
            assert str(file) in error.message and "\n" not in error.message
    assert refused > 20


def damaged(value: Any) -> list[Any]:
    """The value with one of its parts exchanged or left out."""
    found: list[Any] = []
    if isinstance(value, dict):
        for key, each in value.items():
            found.append({name: its for name, its in value.items() if name != key})
            found += [{**value, key: other} for other in [*OTHERS, *damaged(each)]]
        found.append({**value, "unknown": 1})
    if isinstance(value, list):
        for number, each in enumerate(value):
            for other in [*OTHERS, *damaged(each)]:
                found.append([*value[:number], other, *value[number + 1 :]])
    return found


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        (".jobs/0.json", {**NOTE, "number": "../../x"}, "number"),
        (".jobs/0.json", {**NOTE, "words": "abc"}, "words"),
        (".jobs/0.json", {**NOTE, "state": "over"}, "state"),
        ("trials.json", {**TRIALS, "best": 7}, "best"),
        (
            "trials.json",
            {**TRIALS, "trials": [{**TRIAL, "runs": [{**RUN, "steps": {"x": 1}}]}]},
            "'x'",
        ),
        ("trials.json", {**TRIALS, "heldout": {"best": {}}}, "heldout.best"),
    ],
)
def test_an_error_names_the_file_and_the_key(refused, tmp_path, name, content, named):
    sweep(tmp_path)
    file = written(tmp_path, name, content)
    with refused(CheckpointError, named, file):
        read_all(tmp_path)


def test_rules_shares_and_orders(refused, tmp_path):
    rule = {"metric": "m", "pruner": "none", "options": {}, "direction": "maximize"}
    rule |= {"number": 0, "finished": 1}
    for wrong in {"finished": [5]}, {"options": []}, {"direction": "up"}, {"number": None}:
        written(tmp_path, ".study/0.rule.json", {**rule, **wrong})
        with refused(CheckpointError, "0.rule.json"):
            record_evaluation(None, "step_000001", {}, tmp_path, 0)
    for share in {"cores": 0, "devices": 0, "jobs": 0}, {"cores": "1"}, []:
        written(tmp_path, ".jobs/share", share)
        with refused(CheckpointError, "share"):
            find_share(tmp_path, "auto", [])
    for request in {"verb": 5}, {"verb": "train", "words": "a"}, {"words": []}, {"x": 1}:
        written(tmp_path, "sweep.json", request)
        with refused(CheckpointError, "sweep.json"):
            SweepRequest.load(tmp_path)


@pytest.mark.parametrize("changes", [{"seconds": "long"}, {"process": 5}, {"folder": None}])
def test_resume_refuses_a_damaged_note(tmp_path, changes, capsys):
    words = ["env=toy", "model=toy", "algorithm=ppo", "runner.seed=0,1"]
    hydra = [f"hydra.sweep.dir={tmp_path}"]
    written(tmp_path, "sweep.json", {"verb": "train", "words": words, "hydra": hydra})
    (tmp_path / SWEEP_TABLE).write_text("sweep\n")
    file = written(tmp_path, ".jobs/0.json", {**NOTE, **changes})
    assert main(["resume", str(tmp_path)]) == CheckpointError.exit_code
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and str(file) in error and next(iter(changes)) in error
    assert "Traceback" not in error
