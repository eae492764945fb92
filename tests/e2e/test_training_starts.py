"""Success at starts that are trained on is called so, and measured only where asked for by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from resume_cases import COMMON

from rlcore.cli.eval import of_run
from rlcore.config.compose import compose
from rlcore.errors import ConfigError
from rlcore.loop import collect, evaluate, train
from rlcore.track.summary import read_summary

SWAPPED = ["env.train.split=heldout", "env.eval.split=train"]


def config(log_path: Path, *overrides: str):
    return compose([*COMMON, "runner.max_epochs=1", f"runner.logger.log_path={log_path}",
                    *overrides])  # fmt: skip


def test_what_was_measured_on_is_said_everywhere(
    log_path: Path, capsys: pytest.CaptureFixture[str]
):
    train.run(config(log_path, "env.eval.split=train", "env.eval.allow_training_trials=true"))
    run, said = log_path / "run", "evaluated on training starts"
    out = capsys.readouterr().out
    assert f"episodes; {said}" in out and f"success after; {said}" in out
    assert read_summary(run / "summary.json")["caveat"] == said
    assert json.loads((run / "manifest.json").read_text())["evaluated_on"] == "training starts"
    page = (run / "report.html").read_text()
    assert said in page and "evaluation, training starts" in page and "held-out" not in page


def test_the_other_splits_are_as_good(log_path: Path, capsys: pytest.CaptureFixture[str]):
    train.run(config(log_path, *SWAPPED))
    assert "training starts" not in capsys.readouterr().out
    assert "evaluation, held-out starts" in (log_path / "run" / "report.html").read_text()
    # what was held out by number is what was trained on
    evaluate.run(of_run(log_path / "run", ["env.eval.split=heldout"]))
    assert "evaluated on training starts" in capsys.readouterr().out


def test_demonstrations_from_elsewhere(log_path: Path, tmp_path: Path):
    data = tmp_path / "data"
    at = ["env.train.split=heldout", f"collect.path={data}", "env.eval.split=train"]
    collect.run(config(log_path, *at))
    learn = [f"collect.path={data}", "env.eval.trials_per_task=1000"]
    with pytest.raises(ConfigError, match=r"no start that is among the demonstrations of .*/data"):
        train.run(config(log_path, *learn))
    compose([*COMMON, *learn, "env.eval.allow_training_trials=true"])
