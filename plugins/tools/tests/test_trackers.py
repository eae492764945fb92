"""TensorBoard, W&B and SwanLab get the metrics that the log gets."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from internals import read_metrics
from rlcore_tools.metric_names import under_further_names
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore.cli.main import main
from rlcore.config.schema import LoggerConfig
from rlcore.contracts.errors import PluginError
from rlcore.plugins import extras
from rlcore.plugins.registry import Registry
from rlcore.runs.folder import RunFolder
from rlcore.runs.trackers import open_trackers


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path, "run")


def config(*names):
    return LoggerConfig(logger_backends=list(names), project_name="project")


def test_tensorboard_holds_both_families_of_names(folder):
    metrics = {"train/actor/approx_kl": 0.01, "env/success_once": 0.5}
    metrics |= under_further_names(metrics)  # as the run does
    with open_trackers(config("tensorboard"), folder, Registry.load()) as trackers:
        trackers.log(metrics, step=1)
        trackers.log({**metrics, "env/success_once": 0.75}, step=2)
    events = EventAccumulator(str(folder.tensorboard))
    events.Reload()
    names = {"train/actor/approx_kl", "actor/approx_kl", "train/actor/approx_kl_k3"}
    assert set(events.Tags()["scalars"]) == names | {"env/success_once"}
    points = [(event.step, event.value) for event in events.Scalars("env/success_once")]
    assert points == [(1, 0.5), (2, 0.75)]
    assert read_metrics(folder.metrics)[0]["actor/approx_kl"] == 0.01


@pytest.mark.parametrize("name", ["wandb", "swanlab"])
def test_missing_library_names_the_command(refused, folder, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with refused(PluginError, f"pip install {name}", text=False):  # Python words the cause
        open_trackers(config(name), folder, Registry.load())


def test_a_tracker_that_cannot_start_is_a_user_error(refused, folder, monkeypatch):
    def init(**settings):
        raise RuntimeError("no API key")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    with refused(PluginError, "no API key", "logger_backends"):
        open_trackers(config("wandb"), folder, Registry.load())


@pytest.mark.parametrize("name", ["wandb", "swanlab"])
def test_optional_trackers_get_project_folder_and_steps(folder, monkeypatch, name):
    calls = []
    axes = []
    run = SimpleNamespace(
        log=lambda metrics, step=None: calls.append((step, metrics)),
        define_metric=lambda metric, step_metric=None: axes.append((metric, step_metric)),
        finish=lambda: calls.append("finished"),
    )

    def init(**settings):
        calls.append(settings)
        return run

    monkeypatch.setitem(sys.modules, name, SimpleNamespace(init=init))
    for _ in range(2):  # the second time as after a resume
        with open_trackers(config(name), folder, Registry.load()) as trackers:
            trackers.log({"env/return": 2.0}, step=3)
    settings, logged, finished, resumed, *_ = calls
    assert settings == resumed and settings["resume"] == "allow"
    assert re.fullmatch("[a-z0-9]{21}", settings["id"])
    assert settings["project"] == "project"
    assert "run" in settings.values()
    assert any(str(folder.path) in str(value) for value in settings.values())
    if name == "wandb":  # the update is a metric, as W&B's own steps only rise
        assert logged == (None, {"env/return": 2.0, "update": 3})
        assert axes == [("update", None), ("*", "update")] * 2
    else:
        assert logged == (3, {"env/return": 2.0}) and not axes
    assert finished == "finished"


PLAY = """
import sys
from pathlib import Path
from rlcore.config.schema import LoggerConfig
from rlcore.plugins.registry import Registry
from rlcore.runs.folder import RunFolder
from rlcore.runs.trackers import open_trackers
logger = LoggerConfig(logger_backends=[sys.argv[1]], project_name="project")
folder = RunFolder.create(Path.cwd(), "run")
with open_trackers(logger, folder, Registry.load()) as trackers:
    trackers.log({"env/return": 2.0}, step=4)
    trackers.log({"env/return": 2.53125}, step=3)
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("name", "pattern", "number"),
    [
        ("wandb", "wandb/offline-run-*/run-*.wandb", b"2.53125"),
        ("swanlab", "swanlab/run-*/run-*.swanlab", struct.pack("<d", 2.53125)),
    ],
)
def test_the_library_itself_writes_into_the_run_offline(tmp_path, name, pattern, number):
    """In a process of its own, as the libraries begin others, and with a home of its own. The
    second update is an earlier one, as after a resume from an earlier checkpoint."""
    pytest.importorskip(name, reason=f"pip install {name}; a smaller test stands above")
    offline = {"WANDB_MODE": "offline", "SWANLAB_MODE": "offline", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", PLAY, name]
    settings = {"env": os.environ | offline, "capture_output": True, "timeout": 200}
    subprocess.run(command, cwd=tmp_path, check=True, **settings)
    (file,) = (tmp_path / "run").glob(pattern)
    written = file.read_bytes()
    assert b"env/return" in written and number in written


@pytest.mark.long
def test_wandb_without_a_login_ends_before_anything_is_logged(tmp_path):
    """It names what it lacks, and asks nobody: there is no terminal."""
    pytest.importorskip("wandb", reason="pip install wandb")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    command = [sys.executable, "-c", PLAY, "wandb"]
    settings = {"env": kept | {"HOME": str(tmp_path)}, "capture_output": True, "timeout": 200}
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, text=True, check=False, **settings
    )
    assert done.returncode and "PluginError" in done.stderr
    last = done.stderr[done.stderr.rindex("PluginError") :]
    assert "API key" in last and "logger_backends" in last


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """Let packages look as if they were not installed."""
    known = {name: place for name, place in extras.folders().items() if name not in absent}
    monkeypatch.setattr(extras, "folders", lambda: known)


TOY = ("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local")


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", ["wandb", "swanlab"])
@pytest.mark.parametrize("dry", [("--dry-run",), ()])
def test_a_missing_library_is_found_before_anything_starts(
    elsewhere, monkeypatch, capsys, name, dry
):
    without(monkeypatch, name)
    logger = f"runner.logger.logger_backends=[tensorboard,{name}]"
    assert main(["train", *TOY, logger, *dry]) == PluginError.exit_code
    error = capsys.readouterr().err
    assert "runner.logger.logger_backends" in error
    assert f"pip install {name}\n" in error  # tests run in a clone
    assert not list(Path.cwd().iterdir())


def test_the_doctor_names_a_missing_library(elsewhere, monkeypatch, capsys):
    without(monkeypatch, "wandb", "swanlab")
    for words in ([], TOY):
        main(["doctor", *words])
        assert "tracker" not in capsys.readouterr().out
    assert main(["doctor", *TOY, "runner.logger.logger_backends=[wandb]"]) == 1
    printed = capsys.readouterr().out
    assert "tracker 'wandb'" in printed and "swanlab" not in printed
    assert "pip install wandb\n" in printed
