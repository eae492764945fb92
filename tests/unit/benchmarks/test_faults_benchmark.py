"""The fault table sees what is left behind, what differs and which promise is broken."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rlcore.runs.checkpoint import save_checkpoint
from rlcore.runs.learner_state import write_learner
from rlcore.runs.tables import EpisodeResult, write_results

pytest.importorskip("rlcore_algo_ppo")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", autouse=True)
def parts() -> Iterator[None]:
    """The benchmarks' modules, importable as from their folder."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def test_leftovers_of_a_run_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from parts import leftovers
    from parts.command import MARK, Command

    monkeypatch.setattr(leftovers, "PATIENCE", 0.5)
    before = leftovers.shared_memory()
    command = Command(["--version"], tmp_path, {})
    assert command.wait(60) == 0
    ended = time.monotonic()
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: command.mark})
    segment = leftovers.SHARED_MEMORY / f"rlcore-test-{uuid.uuid4().hex}"
    partial = tmp_path / "checkpoints" / ".partial-1-step_000001"
    partial.mkdir(parents=True)
    try:
        segment.touch()
        left = leftovers.look(command, ended, before)
        assert left.orphans == ("sleep 600",)
        assert left.gone_after is None
        assert left.partial == ("checkpoints/.partial-1-step_000001",)
        assert segment.name in left.shared_memory
        assert not left.clean
    finally:
        segment.unlink()
        command.end()
    assert orphan.wait(10) == -9
    partial.rmdir()
    again = leftovers.look(command, ended, before)
    assert (again.orphans, again.partial) == ((), ())
    assert segment.name not in again.shared_memory


def make_run(folder: Path, weight: float, moment: float, success: bool, loss: float) -> Path:
    def policy(path: Path) -> None:
        save_file({"w": torch.tensor([weight])}, path / "model.safetensors")

    def learner(path: Path) -> None:
        write_learner(path, {"tensors": {"m": torch.tensor([moment])}, "state": {}})

    save_checkpoint(folder / "checkpoints", 1, save_policy=policy, save_learner=learner)
    (folder / "metrics.jsonl").write_text(
        f'{{"step": 1, "time": {time.time()}, "loss": {loss}, "time/update": {time.time()}}}\n'
    )
    (folder / "eval").mkdir()
    result = EpisodeResult("press", 3, 0, success, 0.5, 7, "deterministic")
    write_results(folder / "eval" / "after.parquet", [result])
    return folder


def test_runs_differ_by_one_bit_anywhere(tmp_path: Path):
    from parts.outcome import differences, success

    whole = make_run(tmp_path / "whole", 1.0, 2.0, True, 0.5)
    assert success(whole) == 1.0
    assert differences(make_run(tmp_path / "same", 1.0, 2.0, True, 0.5), whole) == []
    assert differences(make_run(tmp_path / "w", 1.0000001, 2.0, True, 0.5), whole) == ["weights"]
    assert differences(make_run(tmp_path / "m", 1.0, -2.0, True, 0.5), whole) == ["optimizer"]
    assert differences(make_run(tmp_path / "e", 1.0, 2.0, False, 0.5), whole) == ["evaluation"]
    assert differences(make_run(tmp_path / "l", 1.0, 2.0, True, 0.25), whole) == ["metrics"]


def test_each_broken_promise_is_named():
    from parts.leftovers import Leftovers
    from parts.rows import ROWS
    from parts.strike import Result, broken

    row = ROWS["actor"]
    kept = Result(
        what=row.what,
        happened="error: actor worker 0 died while it was asked to update",
        exit_code=1,
        seconds=1.0,
        checkpoint=2,
        resumed_after=3.0,
        success=0.5,
        differences=[],
        errors=["error: actor worker 0 died while it was asked to update"],
        noise=[],
        stderr=[],
        leftovers=Leftovers((4, 0), 20.0, (), (), ()),
        broken=[],
    )
    assert list(broken(row, kept)) == []
    for change in (
        {"exit_code": 0},
        {"errors": [*kept.errors, "error: and another one"]},
        {"errors": ["error: something failed"]},
        {"checkpoint": None},
        {"resumed_after": None},
        {"differences": ["weights"]},
        {"noise": ["(raylet) A worker died"]},
        {"leftovers": replace(kept.leftovers, orphans=("raylet",))},
        {"leftovers": replace(kept.leftovers, shared_memory=("plasma",))},
        {"leftovers": replace(kept.leftovers, partial=(".partial-1-step_000003",))},
    ):
        assert len(list(broken(row, replace(kept, **change)))) == 1, change
    assert len(list(broken(ROWS["env-worker"], replace(kept, exit_code=0, errors=[])))) == 1
