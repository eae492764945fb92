"""Success at starts that are trained on is called so, and measured only where asked for by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from internals import assemble, collect, compose, evaluate, train
from resume_cases import COMMON, go_on

from rlcore.api import open_run
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError
from rlcore.files.damaged_files import read_mapping

SWAPPED = ["env.train.split=heldout", "env.eval.split=train"]


def config(log_path: Path, *overrides: str):
    return compose([*COMMON, "runner.max_epochs=1", f"runner.logger.log_path={log_path}",
                    *overrides])  # fmt: skip


def test_what_was_measured_on_is_said_everywhere(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    train(assemble(config(log_path, "env.eval.split=train", "env.eval.allow_training_trials=true")))
    run, said = log_path / "run", "evaluated on training starts"
    out = capsys.readouterr().out
    assert f"episodes; {said}" in out and f"success after; {said}" in out
    assert read_mapping(run / "summary.json")["caveat"] == said
    assert json.loads((run / "manifest.json").read_text())["evaluated_on"] == "training starts"
    page = (run / "report.html").read_text()
    assert said in page and "evaluation, training starts" in page and "held-out" not in page


@pytest.mark.long
def test_the_other_splits_are_as_good(log_path: Path, capsys: pytest.CaptureFixture[str]):
    train(assemble(config(log_path, *SWAPPED)))
    assert "training starts" not in capsys.readouterr().out
    assert "evaluation, held-out starts" in (log_path / "run" / "report.html").read_text()
    # what was held out by number is what was trained on
    run = open_run(log_path / "run")
    heldout = run.config_to_evaluate(run.checkpoint(), "env.eval.split=heldout")
    evaluate(assemble(heldout))
    assert "evaluated on training starts" in capsys.readouterr().out


def test_demonstrations_from_elsewhere(log_path: Path, tmp_path: Path):
    data = tmp_path / "data"
    at = ["env.train.split=heldout", f"collect.output={data}", "env.eval.split=train"]
    collect(assemble(config(log_path, *at), collects=True))
    learn = [f"collect.path={data}", "env.eval.trials_per_task=1000"]
    with pytest.raises(ConfigError, match=r"starts that are among the demonstrations in .*/data"):
        train(assemble(config(log_path, *learn)))
    compose([*COMMON, *learn, "env.eval.allow_training_trials=true"])


@pytest.mark.long
def test_what_an_earlier_attempt_trained_on_counts(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    train(assemble(config(log_path, "env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]")))
    run = log_path / "run"
    more = ["runner.max_epochs=2", *SWAPPED]
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    tasks = ["env.train.tasks=[reach-down]", "env.eval.tasks=[reach-up]"]
    with pytest.raises(ConfigError, match=r"was trained on, got reach-up trial 0, .*0001/config"):
        go_on(run, *more, *tasks)
    evaluated = ["eval", str(run), "env.eval.split=train", "env.eval.tasks=[reach-up]"]
    assert main(evaluated) == ConfigError.exit_code
    assert "env.eval.allow_training_trials=true" in capsys.readouterr().err
    assert files == {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert list(log_path.iterdir()) == [run]
    assert main([*evaluated, "env.eval.allow_training_trials=true"]) == 0
    go_on(run, *more)  # the evaluated task was never trained on
    assert (run / "attempts" / "0002").is_dir()
    # two attempts back: the present one trains on held-out trials
    with pytest.raises(ConfigError, match="was trained on, got reach-up trial 0"):
        go_on(run, "runner.max_epochs=3", "env.eval.tasks=[reach-up]")
    with pytest.raises(ConfigError, match=r"config\.yaml has env\.train\.split=heldout"):
        go_on(run, "runner.max_epochs=3", "env.train.split=train", "env.eval.split=heldout",
              "env.eval.tasks=[reach-up]")  # fmt: skip
    go_on(run, "runner.max_epochs=3", "env.eval.tasks=[reach-up]",
          "env.eval.allow_training_trials=true")  # fmt: skip


@pytest.mark.long
def test_what_an_earlier_attempt_trained_on_is_no_held_out_start(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Asked for by name, and called what it is: in the run, its report and its evaluations."""
    train(assemble(config(log_path, "env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]")))
    run, said = log_path / "run", "evaluated on training starts"
    capsys.readouterr()
    swapped = [*SWAPPED, "env.train.tasks=[reach-down]", "env.eval.tasks=[reach-up]"]
    go_on(run, "runner.max_epochs=2", *swapped, "env.eval.allow_training_trials=true")
    assert said in capsys.readouterr().out
    assert read_mapping(run / "summary.json")["caveat"] == said
    assert json.loads((run / "manifest.json").read_text())["evaluated_on"] == "training starts"
    assert "held-out" not in (run / "report.html").read_text()
    assert main(["eval", str(run)]) == 0
    assert said in capsys.readouterr().out
    # by now also held-out trials of the other task were trained on, and others were not
    evaluated = "env.eval.tasks=[reach-down,reach-left]"
    assert main(["eval", str(run), evaluated, "env.eval.split=heldout"]) == 0
    assert "evaluated on starts, 3 of 6 of them training starts" in capsys.readouterr().out


@pytest.mark.long
def test_every_row_of_a_protocol_and_a_verification_are_asked(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Rows that change tasks visit other starts than the base of the protocol."""
    both = "env.eval.tasks=[reach-up,reach-down]"
    train(assemble(config(log_path, *SWAPPED, "env.train.tasks=[reach-left]", both)))
    run = log_path / "run"
    capsys.readouterr()
    settled = ["env.train.split=train", "env.eval.split=heldout", "env.train.tasks=[reach-left]"]
    evaluated = ["eval", str(run), "protocol=toy_haste", *settled]
    assert main(evaluated) == ConfigError.exit_code
    assert "was trained on, got reach-left trial 1000" in capsys.readouterr().err
    assert [path.name for path in log_path.iterdir()] == ["run"]
    assert main(["eval", str(run), "--verify", *settled, "env.eval.tasks=[reach-left]"]) == (
        ConfigError.exit_code
    )
    assert "was trained on, got reach-left trial 1000" in capsys.readouterr().err
