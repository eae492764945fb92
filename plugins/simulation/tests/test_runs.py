"""A whole run on Ray whose two envs simulate under two other interpreters, and are struck."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from internals import load_checkpoint, read_metrics
from rlcore_tools.report.sameness import untimed
from safetensors.numpy import load_file

from rlcore.cli.main import main
from rlcore.contracts.hookspecs import hookimpl
from rlcore.contracts.run import Run
from rlcore.plugins.registry import load_plugins
from rlcore.runs.tables import read_results

WORDS = [
    *("env=line", "model=toy", "algorithm=ppo", "runner.max_epochs=2", "runner.save_interval=1"),
    *("actor.micro_batch_size=8", "actor.global_batch_size=16", "cluster.torch_threads=1"),
    *("env.eval.trials_per_task=2", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"),
]
SIDES = [
    f"env.{side}.{words}"
    for side in ("train", "eval")
    for words in ("total_num_envs=4", "num_processes=1", "extra_states=0", "max_episode_steps=20")
]
STRIKES = ("9", "19")  # SIGKILL and SIGSTOP
# One that is stopped is waited for, without a CPU. On a machine so busy that others take as long to
# start, they are begun anew until they don't.
PATIENCE = [
    "env.train.simulator_timeout=20",
    "cluster.simulator_restarts=20",
    "cluster.timeouts.env=800",
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that makes the tiny simulator an installed plugin, here too."""
    folder = tmp_path / "site"
    info = folder / "line-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: line\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlcore.plugins]\nline = line_plugin\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    load_plugins.cache_clear()
    yield folder
    load_plugins.cache_clear()


@pytest.mark.long
def test_collect_reports_simulators_that_died(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strikes = tmp_path / "strikes"
    strikes.mkdir()
    (strikes / "9").touch()
    words = ["env=line", "env.train.total_num_envs=2", "env.train.num_processes=2"]
    words += [f"env.train.strikes={strikes}", "cluster.backend=local"]
    words += ["collect.episodes_per_task=2", f"collect.output={tmp_path / 'shown'}"]
    assert main(["collect", *words, f"runner.logger.log_path={tmp_path}"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "recovered: " in line]
    assert "signal 9" in line and "demonstrated task" in line


def test_another_interpreter_without_processes_is_refused_before_a_run(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", *WORDS, f"env.train.python={sys.executable}", "--dry-run"]
    assert main([*words, "env.train.num_processes=0", "env.eval.num_processes=0"]) == 2
    error = capsys.readouterr().err
    assert "env.train.num_processes" in error and f"python={sys.executable}" in error
    assert main(words) == 0


@pytest.mark.long
def test_a_run_in_another_interpreter_is_replayed_and_resume_reports_an_upgrade(
    site: Path, twin_venv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plugin's code that is handed on, and the commit of what simulates, are others then."""
    head = tmp_path / "checkout" / ".git" / "HEAD"
    head.parent.mkdir(parents=True)
    head.write_text("1" * 40)
    run = tmp_path / "away"
    words = [*WORDS, *SIDES, f"runner.logger.log_path={tmp_path}", "cluster.backend=local"]
    words += [f"env.{side}.python={twin_venv}" for side in ("train", "eval")]
    words += [f"env.train.checkout={head.parents[1]}", "runner.val_before_train=false"]
    words += [f"runner.logger.experiment_name={run.name}", "runner.max_epochs=1"]
    assert main(["train", *words]) == 0
    versions = json.loads((run / "manifest.json").read_text())["versions"]
    assert versions["line (env.train)"] == "1" * 40
    assert versions["line (env.train.python)"] == "1.0"
    assert main(["replay", str(run), "--task", "left", "--trial", "100"]) == 0
    assert main(["eval", str(run), "--verify"]) == 0
    seen = capsys.readouterr().out
    assert "other versions" not in seen and "as evaluated: " in seen and "verified: all" in seen
    gone = tmp_path / "gone" / "bin" / "python"
    config = run / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace(str(twin_venv), str(gone)))
    assert main(["resume", str(run), "runner.max_epochs=2"]) == 2
    error = capsys.readouterr().err
    assert f"env.train.python: {gone}" in error and "--trust" not in error
    config.write_text(text)
    (metadata,) = site.glob("line-*/METADATA")
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    load_plugins.cache_clear()
    head.write_text("2" * 40)
    assert main(["resume", str(run), "runner.max_epochs=2"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "other versions" in line]
    assert f"line (env.train) {'1' * 40} -> {'2' * 40}" in line
    assert "line (env.train.python) 1.0 -> 1.1" in line and "numpy" not in line


class Upgrading:
    """A plugin that changes what the simulators import after the first rollout, and lets a process
    of theirs be killed in the next."""

    def __init__(self, metadata: Path, gauge: Path, strikes: Path) -> None:
        self._metadata, self._gauge, self._strikes = metadata, gauge, strikes

    @hookimpl
    def rlcore_after_rollout(self, run: Run) -> None:
        if run.update == 0:
            self._metadata.write_text(self._metadata.read_text().replace("1.0", "1.1"))
            self._gauge.mkdir()
            text = "Metadata-Version: 2.1\nName: gauge\nVersion: 3.0\n"
            (self._gauge / "METADATA").write_text(text)
            (self._strikes / "9").touch()


@pytest.mark.long
def test_versions_of_a_restarted_simulator_are_recorded_and_reported(
    site: Path, twin_venv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strikes, run = tmp_path / "strikes", tmp_path / "away"
    strikes.mkdir()
    (metadata,) = site.glob("line-*/METADATA")
    (packages,) = twin_venv.glob("lib/python3*/site-packages")
    gauge = packages / "gauge-3.0.dist-info"
    words = [*WORDS, *SIDES, f"runner.logger.log_path={tmp_path}", "cluster.backend=local"]
    words += [f"env.train.python={twin_venv}", f"env.train.strikes={strikes}"]
    words += ["runner.val_before_train=false", f"runner.logger.experiment_name={run.name}"]
    load_plugins().manager.register(Upgrading(metadata, gauge, strikes), "upgrading")
    try:
        assert main(["train", *words]) == 0
    finally:
        load_plugins().manager.unregister(name="upgrading")
        shutil.rmtree(gauge, ignore_errors=True)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "other versions" in line]
    assert "line 1.0 -> 1.1" in line and "numpy" not in line
    for folder in (run, run / "attempts" / "0001"):
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["versions"]["line"] == "1.1"
        assert manifest["interpreters"]["train"]["packages"]["gauge"] == "3.0"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_envs_in_two_interpreters_give_the_same_run_though_processes_die(
    site: Path, twin_venv: Path, numpy1: str, tmp_path: Path
) -> None:
    """Simulators that train run beside numpy 1, those that evaluate beside this one. The process of
    those that train is killed, and what follows it is stopped; the results show nothing of it."""
    strikes = tmp_path / "strikes"
    strikes.mkdir()
    for signal in STRIKES:
        (strikes / signal).touch()
    words = ["train", *WORDS, *SIDES, f"runner.logger.log_path={tmp_path}"]
    assert main([*words, "runner.logger.experiment_name=home", "cluster.backend=local"]) == 0
    words += [f"env.train.python={numpy1}", f"env.eval.python={twin_venv}", *PATIENCE]
    words += [f"env.train.strikes={strikes}", "runner.logger.experiment_name=away"]
    paths = os.pathsep.join([str(site), str(Path(__file__).parent)])
    done = subprocess.run(  # a Ray of its own: workers must find the plugin
        [sys.executable, "-m", "rlcore.cli.main", *words, "cluster.backend=ray"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(strikes.iterdir())
    for cause in ("signal 9", "within 20 s"):
        assert cause in done.stdout, done.stdout
    home, away = tmp_path / "home", tmp_path / "away"
    assert untimed(read_metrics(away / "metrics.jsonl")) == untimed(
        read_metrics(home / "metrics.jsonl")
    )
    tables = sorted(home.glob("eval/*.parquet"))
    assert tables
    for file in tables:
        assert list(read_results(file)) == list(read_results(away / "eval" / file.name))
    require_equal_weights(home, away)
    found = json.loads((away / "manifest.json").read_text())["versions"]
    assert found["numpy (env.train.python)"] == "1.26.4"
    assert found["numpy (env.eval.python)"] == np.__version__


def require_equal_weights(one: Path, other: Path) -> None:
    ours, theirs = (load_checkpoint(run).path for run in (one, other))
    files = sorted(file.relative_to(ours) for file in ours.rglob("*.safetensors"))
    assert files
    for file in files:
        here, there = load_file(ours / file), load_file(theirs / file)
        for name, array in here.items():
            np.testing.assert_array_equal(array, there[name])
