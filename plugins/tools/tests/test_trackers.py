"""TensorBoard, W&B and SwanLab are told what the log is told."""

import sys
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore.config.schema import LoggerConfig
from rlcore.errors import PluginError
from rlcore.plugins import Registry
from rlcore.track.folder import RunFolder
from rlcore.track.trackers import open_trackers, read_metrics


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path, "run")


def config(*names):
    return LoggerConfig(logger_backends=list(names), project_name="project")


def test_tensorboard_holds_both_families_of_names(folder):
    metrics = {"train/actor/approx_kl": 0.01, "env/success_once": 0.5}
    with open_trackers(config("tensorboard"), folder, Registry.load()) as trackers:
        trackers.log(metrics, step=1)
        trackers.log({**metrics, "env/success_once": 0.75}, step=2)
    events = EventAccumulator(str(folder.tensorboard))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "train/actor/approx_kl", "actor/approx_kl", "env/success_once",
    }  # fmt: skip
    points = [(event.step, event.value) for event in events.Scalars("env/success_once")]
    assert points == [(1, 0.5), (2, 0.75)]
    assert read_metrics(folder.metrics)[0]["actor/approx_kl"] == 0.01


@pytest.mark.parametrize("name", ["wandb", "swanlab"])
def test_missing_library_names_the_command(folder, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PluginError, match=name) as caught:
        open_trackers(config(name), folder, Registry.load())
    assert caught.value.hint == f"pip install {name}"


def test_a_tracker_that_cannot_start_is_a_user_error(folder, monkeypatch):
    def init(**settings):
        raise RuntimeError("no API key")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    with pytest.raises(PluginError, match="no API key") as caught:
        open_trackers(config("wandb"), folder, Registry.load())
    assert "logger_backends" in caught.value.hint


@pytest.mark.parametrize("name", ["wandb", "swanlab"])
def test_optional_trackers_are_told_project_folder_and_steps(folder, monkeypatch, name):
    calls = []
    run = SimpleNamespace(
        log=lambda metrics, step: calls.append((step, metrics)),
        finish=lambda: calls.append("finished"),
    )

    def init(**settings):
        calls.append(settings)
        return run

    monkeypatch.setitem(sys.modules, name, SimpleNamespace(init=init))
    with open_trackers(config(name), folder, Registry.load()) as trackers:
        trackers.log({"env/return": 2.0}, step=3)
    settings, logged, finished = calls
    assert settings["project"] == "project"
    assert "run" in settings.values()
    assert any(str(folder.path) in str(value) for value in settings.values())
    assert logged == (3, {"env/return": 2.0})
    assert finished == "finished"
