"""Files of another run of the same recipe, copied into a run: whole, readable, and wrong."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from internals import assemble, compose, train, train_stages
from resume_cases import COMMON, Failing, go_on
from rlcore_tools.report import write_comparison, write_report
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.record import RunRecord

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, WorkerError
from rlcore.runs.folder import RunFolder


def start(log_path: Path, name: str, *overrides: str) -> Path:
    names = [f"runner.logger.log_path={log_path}", f"runner.logger.experiment_name={name}"]
    train(assemble(compose([*COMMON, "runner.max_epochs=2", *names, *overrides])))
    return log_path / name


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
def test_nothing_is_doubted_without_need(own: Path):
    assert RunRecord(RunFolder(own)).doubts == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(RunFolder(own))
    go_on(own, "runner.max_epochs=3", "runner.save_interval=2")
    assert RunRecord(RunFolder(own)).doubts == []


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("summary.json", "summary.json and eval/"),
        ("eval/before.parquet", "eval/before.parquet does not begin with"),
        ("metrics.jsonl", "metrics.jsonl "),
        ("sft.json", "sft.json is not what metrics.jsonl has of it: its train_loss is another"),
    ],
)
def test_a_report_doubts_it(
    runs: tuple[Path, Path],
    own: Path,
    name: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
):
    shutil.copy(runs[1] / name, own / name)
    doubts = RunRecord(RunFolder(own)).doubts
    assert any(doubt.startswith(said) for doubt in doubts), doubts
    assert main(["report", str(own)]) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert said in (own / "report.html").read_text()
    with pytest.warns(UserWarning, match=said):
        write_comparison([row_of(own), row_of(runs[1])], own / "both.html")


def test_a_summary_of_another_seed(own: Path):
    path = own / "summary.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
    assert RunRecord(RunFolder(own)).doubts == [
        "summary.json is of a run with seed 7, config.yaml has seed 0"
    ]


@pytest.mark.long
def test_a_start_is_not_logged_with_the_losses_of_another(
    log_path: Path, runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(train_stages, "update_policy", Failing(train_stages.update_policy, [0]))
    with pytest.raises(WorkerError):
        start(log_path, "broken")
    run = log_path / "broken"
    kept = (run / "sft.json").read_bytes()
    shutil.copy(runs[1] / "sft.json", run / "sft.json")
    with pytest.raises(CheckpointError, match=r"sft\.json is not what metrics\.jsonl has of it"):
        go_on(run)
    (run / "sft.json").write_bytes(kept)
    go_on(run, "runner.max_epochs=1")


def test_a_policy_is_not_exported_with_the_state_of_another_checkpoint(
    runs: tuple[Path, Path], own: Path, capsys: pytest.CaptureFixture[str]
):
    for place in (own / "checkpoints" / "step_000001", runs[1] / "checkpoints" / "step_000002"):
        shutil.copy(place / "state.json", own / "checkpoints" / "step_000002" / "state.json")
        assert main(["export", str(own), str(own / "out")]) != 0
        said = " ".join(capsys.readouterr().err.split())
        assert "actor/model.safetensors is damaged or incomplete (its sha256 is" in said
        assert not (own / "out").exists()
