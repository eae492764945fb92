"""Success on training starts is labelled as such, and measured only on request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from internals import assemble, collect, compose, evaluate, train
from resume_cases import COMMON, go_on
from sameness import assert_same, numbers

from rlcore.api import open_run
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError
from rlcore.demonstrations.datasets import open_dataset
from rlcore.files.damaged_files import read_mapping

CAVEAT = "evaluated on training starts"
SWAPPED = ["env.train.split=heldout", "env.eval.split=train"]


def config(log_path: Path, *overrides: str):
    return compose([*COMMON, "runner.max_epochs=1", f"runner.logger.log_path={log_path}",
                    "runner.logger.experiment_name=run", *overrides])  # fmt: skip


def test_an_evaluation_on_training_starts_is_labelled_everywhere(log_path: Path, capsys):
    train(assemble(config(log_path, "env.eval.split=train", "env.eval.allow_training_trials=true")))
    run = log_path / "run"
    assert capsys.readouterr().out.count(CAVEAT) >= 2
    assert read_mapping(run / "summary.json")["caveat"] == CAVEAT
    assert json.loads((run / "manifest.json").read_text())["evaluated_on"] == "training starts"
    page = (run / "report.html").read_text()
    assert CAVEAT in page and "evaluation, training starts" in page and "held-out" not in page


@pytest.mark.long
def test_the_splits_of_training_and_evaluation_can_be_swapped(log_path: Path, capsys):
    train(assemble(config(log_path, *SWAPPED)))
    assert "training starts" not in capsys.readouterr().out
    assert "evaluation, held-out starts" in (log_path / "run" / "report.html").read_text()
    # the held-out trials were trained on
    run = open_run(log_path / "run")
    heldout = run.config_to_evaluate(run.checkpoint(), "env.eval.split=heldout")
    evaluate(assemble(heldout))
    assert CAVEAT in capsys.readouterr().out


def test_starts_of_demonstrations_are_no_held_out_starts(log_path: Path, refused, tmp_path: Path):
    data = tmp_path / "data"
    at = ["env.train.split=heldout", f"collect.output={data}", "env.eval.split=train"]
    collect(assemble(config(log_path, *at), collects=True))
    learn = [f"collect.path={data}", "env.eval.trials_per_task=1000"]
    with refused(ConfigError, data, text=False):
        train(assemble(config(log_path, *learn)))
    compose([*COMMON, *learn, "env.eval.allow_training_trials=true"])


@pytest.mark.long
def test_starts_of_earlier_attempts_are_training_starts(log_path: Path, refused, capsys):
    train(assemble(config(log_path, "env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]")))
    run = log_path / "run"
    more = ["runner.max_epochs=2", *SWAPPED]
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    tasks = ["env.train.tasks=[reach-down]", "env.eval.tasks=[reach-up]"]
    with refused(ConfigError, "reach-up trial 0", "0001/config", text=False):
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
    with refused(ConfigError, "reach-up trial 0", text=False):
        go_on(run, "runner.max_epochs=3", "env.eval.tasks=[reach-up]")
    with refused(ConfigError, "config.yaml", "env.train.split=heldout", text=False):
        go_on(run, "runner.max_epochs=3", "env.train.split=train", "env.eval.split=heldout",
              "env.eval.tasks=[reach-up]")  # fmt: skip
    go_on(run, "runner.max_epochs=3", "env.eval.tasks=[reach-up]",
          "env.eval.allow_training_trials=true")  # fmt: skip


@pytest.mark.long
def test_an_evaluation_on_starts_of_earlier_attempts_is_labelled(log_path: Path, capsys):
    train(assemble(config(log_path, "env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]")))
    run = log_path / "run"
    capsys.readouterr()
    swapped = [*SWAPPED, "env.train.tasks=[reach-down]", "env.eval.tasks=[reach-up]"]
    go_on(run, "runner.max_epochs=2", *swapped, "env.eval.allow_training_trials=true")
    assert CAVEAT in capsys.readouterr().out
    assert read_mapping(run / "summary.json")["caveat"] == CAVEAT
    assert json.loads((run / "manifest.json").read_text())["evaluated_on"] == "training starts"
    assert "held-out" not in (run / "report.html").read_text()
    assert main(["eval", str(run)]) == 0
    assert CAVEAT in capsys.readouterr().out
    # of the held-out trials only those of reach-down were trained on
    evaluated = "env.eval.tasks=[reach-down,reach-left]"
    assert main(["eval", str(run), evaluated, "env.eval.split=heldout"]) == 0
    assert "3 of 6" in capsys.readouterr().out


@pytest.mark.long
def test_rows_of_a_protocol_and_verifications_refuse_training_starts(log_path: Path, capsys):
    """Rows that change tasks visit other starts than the base of the protocol."""
    both = "env.eval.tasks=[reach-up,reach-down]"
    train(assemble(config(log_path, *SWAPPED, "env.train.tasks=[reach-left]", both)))
    run = log_path / "run"
    capsys.readouterr()
    settled = ["env.train.split=train", "env.eval.split=heldout", "env.train.tasks=[reach-left]"]
    evaluated = ["eval", str(run), "protocol=toy_haste", *settled]
    assert main(evaluated) == ConfigError.exit_code
    assert "reach-left trial 1000" in capsys.readouterr().err
    assert [path.name for path in log_path.iterdir()] == ["run"]
    assert main(["eval", str(run), "--verify", *settled, "env.eval.tasks=[reach-left]"]) == (
        ConfigError.exit_code
    )
    assert "reach-left trial 1000" in capsys.readouterr().err


def test_the_first_updates_begin_where_demonstrations_began(log_path: Path):
    words = ["runner.demonstration_starts=1", "runner.demonstration_starts_end=0.5"]
    train(assemble(config(log_path, *words, "runner.max_epochs=2", "runner.save_interval=1")))
    run = log_path / "run"
    shown = open_dataset(run / "demonstrations")[1].starts()
    assert len(shown) == 8  # two of each of four tasks
    shares = [line.get("rollout/demonstration_starts") for line in numbers(run)]
    assert [share for share in shares if share is not None] == [1.0, 0.0]
    again = log_path / "again"
    shutil.copytree(run, again)
    go_on(again / "checkpoints/step_000001")
    assert_same(run, again)


def test_a_run_past_the_starts_of_demonstrations_does_not_need_them(tmp_path: Path, refused):
    data = tmp_path / "data"
    collect(assemble(config(tmp_path / "collected", f"collect.output={data}"), collects=True))
    words = ["runner.demonstration_starts=1", "runner.demonstration_starts_end=0.5"]
    words += ["sft.enabled=false", f"collect.path={data}", "runner.save_interval=1"]
    train(assemble(config(tmp_path / "logs", *words, "runner.max_epochs=2")))
    data.rename(tmp_path / "gone")
    first = tmp_path / "logs/run/checkpoints/step_000001"
    with refused(ConfigError, "collect.path", data, text=False):
        go_on(first, "runner.max_epochs=4")  # half of the second update's episodes begin there
    go_on(first)
    shares = [line.get("rollout/demonstration_starts") for line in numbers(tmp_path / "logs/run")]
    assert [share for share in shares if share is not None] == [1.0, 0.0]
