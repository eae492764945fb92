"""Evaluations by different protocols are never compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from internals import load_checkpoint, read_note
from resume_cases import COMMON, go_on, play
from rlcore_tools.runs.record import RunRecord

from rlcore.cli.main import main
from rlcore.files.damaged_files import read_mapping
from rlcore.runs.folder import RunFolder
from rlcore.runs.tables import comparable, read_results


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two updates, with an evaluation between them."""
    logs = tmp_path_factory.mktemp("logs")
    return play(logs, "whole", *COMMON, "runner.max_epochs=2", "runner.val_check_interval=1")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def rules(run: Path, label: str) -> set[str]:
    return {row.protocol for row in read_results(run / "eval" / f"{label}.parquet")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("env.eval.max_episode_steps=15", "protocol.max_episode_steps 20 and 15"),
        ("env.eval.tasks=[reach-up,reach-down]", "protocol.trials.reach-left"),
        ("env.eval.trials_per_task=2", "protocol.trials.reach-up [1000, 1001, 1002] and"),
        ("env.eval.reward_coef=2", "protocol.settings.reward_coef 1.0 and 2.0"),
        ("rollout.eval_deterministic=false", "sampling 'deterministic' and 'stochastic'"),
    ],
)
def test_another_protocol_after_a_resume_is_evaluated_on_both_sides(
    run: Path, change: str, difference: str, capsys
):
    first = rules(run, "before")
    go_on(run, "runner.max_epochs=3", change)
    assert difference in capsys.readouterr().out
    assert rules(run, "before") == rules(run, "after") != first
    before, after = (read_results(run / "eval" / f"{side}.parquet") for side in ("before", "after"))
    assert {(r.task, r.trial) for r in before} == {(r.task, r.trial) for r in after}
    assert read_mapping(run / "summary.json")["paired_difference"] is not None
    assert "step_000001" in (run / "report.html").read_text()


@pytest.mark.long
def test_another_protocol_without_updates_left_is_the_runs_own(run: Path, capsys):
    """No checkpoint comes after the evaluation that is made again."""
    (run / "summary.json").unlink()
    go_on(run, "env.eval.trials_per_task=2")
    assert "it is made again" in capsys.readouterr().out
    assert RunRecord(RunFolder(run)).doubts == []
    (run / "summary.json").unlink()
    go_on(run)  # under those settings still
    assert "made again" not in capsys.readouterr().out
    assert load_checkpoint(run).step == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "change", ["env.eval.total_num_envs=4", "env.eval.video_cfg.fps=5", "runner.keep_best=true"]
)
def test_a_change_outside_the_protocol_keeps_the_evaluation(run: Path, change: str, capsys):
    before = (run / "eval" / "before.parquet").read_bytes()
    go_on(run, "runner.max_epochs=3", change)
    assert "made again" not in capsys.readouterr().out
    assert (run / "eval" / "before.parquet").read_bytes() == before
    assert "made by another protocol" not in (run / "report.html").read_text()


def test_a_setting_of_the_policy_is_part_of_the_protocol(run: Path, capsys):
    go_on(run, "runner.max_epochs=3", "actor.model.init_std=0.4")
    assert "policy.init_std 0.3 and 0.4" in capsys.readouterr().out
    assert read_note(run / "eval" / "before.parquet")["policy"]["init_std"] == 0.4


@pytest.mark.long
def test_runs_are_compared_only_by_one_protocol(run: Path, whole: Path, tmp_path: Path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(whole), str(run), "-o", str(page)]) == 0
    assert "after, against " in " ".join(page.read_text().split())
    go_on(run, "runner.max_epochs=3", "env.eval.max_episode_steps=15")
    assert main(["report", str(whole), str(run), "-o", str(page)]) == 0
    text = page.read_text()
    assert "after, against" not in text
    assert "was evaluated by another protocol" in text and "max_episode_steps 20 and 15" in text
    sides = [read_results(each / "eval" / "after.parquet") for each in (whole, run)]
    assert comparable(sides[0]) and not comparable(*sides)
