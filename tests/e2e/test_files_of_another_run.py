"""Files of another run of the same recipe, copied into a run: whole, readable, and wrong."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from resume_cases import COMMON, fail_in_updates, go_on, play
from rlcore_tools.report import write_comparison, write_report
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.record import RunRecord

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, WorkerError
from rlcore.runs.folder import RunFolder


def start(log_path: Path, name: str, *overrides: str) -> Path:
    return play(log_path, name, *COMMON, "runner.max_epochs=2", *overrides)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs with one seed that came out otherwise."""
    folder = tmp_path_factory.mktemp("runs")
    other = ("sft.lr=1e-2", "actor.optim.lr=3e-2")
    return start(folder, "own"), start(folder, "other", *other)


@pytest.fixture
def own(runs: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs[0], tmp_path / "own"))


@pytest.mark.long
def test_an_untouched_run_has_no_doubts(own: Path):
    assert RunRecord(RunFolder(own)).doubts == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(RunFolder(own))
    go_on(own, "runner.max_epochs=3", "runner.save_interval=2")
    assert RunRecord(RunFolder(own)).doubts == []


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "name", ["summary.json", "eval/before.parquet", "metrics.jsonl", "sft.json"]
)
def test_a_report_names_files_of_another_run(runs: tuple[Path, Path], own: Path, name: str, capsys):
    shutil.copy(runs[1] / name, own / name)
    (doubt, *_) = [doubt for doubt in RunRecord(RunFolder(own)).doubts if doubt.startswith(name)]
    assert main(["report", str(own)]) == 0
    assert doubt[:40] in " ".join(capsys.readouterr().err.split())
    assert doubt[:40] in (own / "report.html").read_text()
    with pytest.warns(UserWarning, match=name):
        write_comparison([row_of(own), row_of(runs[1])], own / "both.html")


def test_a_summary_of_another_seed(own: Path):
    path = own / "summary.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
    (doubt,) = RunRecord(RunFolder(own)).doubts
    assert all(word in doubt for word in ("summary.json", "seed 7", "config.yaml", "seed 0"))


@pytest.mark.long
def test_a_resume_refuses_the_supervised_losses_of_another_run(
    log_path: Path, refused, runs: tuple[Path, Path], monkeypatch
):
    fail_in_updates(monkeypatch, 0)
    with pytest.raises(WorkerError):
        start(log_path, "broken")
    run = log_path / "broken"
    kept = (run / "sft.json").read_bytes()
    shutil.copy(runs[1] / "sft.json", run / "sft.json")
    with refused(CheckpointError, "sft.json", "metrics.jsonl", text=False):
        go_on(run)
    (run / "sft.json").write_bytes(kept)
    go_on(run, "runner.max_epochs=1")


def test_a_policy_is_not_exported_with_the_state_of_another_checkpoint(
    runs: tuple[Path, Path], own: Path, capsys
):
    for place in (own / "checkpoints" / "step_000001", runs[1] / "checkpoints" / "step_000002"):
        shutil.copy(place / "state.json", own / "checkpoints" / "step_000002" / "state.json")
        assert main(["export", str(own), str(own / "out")]) != 0
        error = capsys.readouterr().err
        assert "actor/model.safetensors" in error and "sha256" in error
        assert not (own / "out").exists()
