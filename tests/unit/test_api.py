"""The Python API composes configurations and reads saved runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rlcore
from rlcore import api
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.runs.checkpoint import Checkpoint
from rlcore.runs.tables import EpisodeResult, write_results

ROW = EpisodeResult("reach", 3, 0, True, 1.5, 7, "deterministic")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that has written its configuration alone."""
    (tmp_path / "run" / "eval").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text("")
    return tmp_path / "run"


def test_a_configuration_is_composed_from_words(refused):
    config = api.compose("env=toy", "env.eval.total_num_envs=3", require=("env",))
    assert (config.env.eval.env_type, config.env.eval.total_num_envs) == ("toy", 3)
    with refused(ConfigError, "model=NAME", text=False):  # it lists the installed models
        api.compose("env=toy", require=("model",))


def test_a_run_without_results_is_empty(folder, refused):
    run = api.open_run(folder)
    assert (run.folder.path, run.metrics(), run.evaluations()) == (folder, [], {})
    with refused(CheckpointError, folder):
        run.checkpoint()


def test_evaluations_are_read_with_their_protocol(folder):
    write_results(folder / "eval/after.parquet", [ROW], {"protocol": {"env": "toy"}})
    (folder / "eval/.partial-1-before.parquet").write_text("never finished")
    (found,) = api.open_run(folder).evaluations().items()
    assert found == ("after", api.Evaluation([ROW], {"env": "toy"}, "after"))


def test_a_link_to_an_evaluation_elsewhere_is_refused(folder, refused, tmp_path):
    write_results(tmp_path / "other.parquet", [ROW])
    (folder / "eval/after.parquet").symlink_to(tmp_path / "other.parquet")
    with refused(CheckpointError, "after.parquet", "other.parquet"):
        api.open_run(folder).evaluations()


def test_metrics_are_lines_and_a_damaged_file_is_named(folder, refused):
    file = folder / "metrics.jsonl"
    file.write_text(json.dumps({"step": 1, "time": 2.0, "loss": 0.5}) + "\n")
    (line,) = api.open_run(folder).metrics()
    assert (line["step"], line["loss"]) == (1, 0.5)
    file.write_text("[1]\n")
    with refused(CheckpointError, "metrics.jsonl"):
        api.open_run(folder).metrics()


@pytest.mark.parametrize("place", ["checkpoints/step_000002/evaluation", "eval/step_000002"])
def test_the_evaluation_of_a_checkpoint(folder, place):
    checkpoint = Checkpoint(folder / "checkpoints/step_000002", 2, folder / "none", {})
    assert api.open_run(folder).evaluated(checkpoint) == []
    write_results(folder / f"{place}.parquet", [ROW])
    assert api.open_run(folder).evaluated(checkpoint) == [ROW]


def test_a_folder_without_a_run_is_refused(refused, tmp_path):
    with refused(CheckpointError, tmp_path):
        api.open_run(tmp_path)


def test_names_of_heavy_modules_are_imported_on_access():
    assert api.Checkpoint is Checkpoint
    with pytest.raises(AttributeError, match="'Checkpiont'"):
        api.Checkpiont  # noqa: B018


def test_importing_rlcore_loads_nothing_that_takes_time():
    script = (
        "import sys, rlcore; assert dir(rlcore) == rlcore.__all__;"
        "heavy = {'torch', 'ray', 'gymnasium', 'hydra', 'pluggy', 'rich'} & {*sys.modules};"
        "assert not heavy, heavy; rlcore.train;"
        "heavy = {'torch', 'ray', 'gymnasium'} & {*sys.modules}; assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_functions_of_the_package_are_those_of_the_api():
    functions = set(rlcore.__all__) - {"__version__", "hookimpl", "observer"}
    for name in functions:
        assert getattr(rlcore, name) is getattr(api, name)
    with pytest.raises(AttributeError, match="'trian'"):
        rlcore.trian  # noqa: B018


def test_a_recipe_is_named_by_its_name_or_its_file(tmp_path):
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment" / "mine.yaml"
    file.write_text("# @package _global_\ndefaults:\n  - /env: toy\nrunner:\n  seed: 11\n")
    for words in ((str(file),), ("mine",)):
        config = api.compose(*words, "runner.max_epochs=2", config_dirs=[tmp_path])
        assert (config.runner.seed, config.runner.max_epochs) == (11, 2)
        assert config.runner.logger.experiment_name == "mine"


def test_rate_interval_and_failures_of_an_evaluation():
    rows = [replace(ROW, trial=trial, success=trial < 3) for trial in range(4)]
    found = api.Evaluation(rows, {})
    assert (found.rate, found.failures) == (0.75, [rows[3]])
    # Wilson, z = 1.96: centre (0.75 + 0.48)/(1 + 0.96) = 0.6275, half 0.3269
    assert found.interval == pytest.approx((0.3006, 0.9544), abs=2e-4)


def test_an_evaluation_by_its_label(folder, refused):
    failed = replace(ROW, trial=4, success=False)
    write_results(folder / "eval/after.parquet", [ROW, failed])
    run = api.open_run(folder)
    assert (run.episodes("after"), run.failures()) == ([ROW, failed], [failed])
    with refused(CheckpointError, "'befor'", "after"):
        run.episodes("befor")
