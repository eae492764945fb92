"""Where a policy can be exported to."""

from __future__ import annotations

import os

import pytest
from internals import compose, load_checkpoint, save_checkpoint
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import env_spec
from rlcore_tools.export import export

from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.plugins.registry import load_plugins
from rlcore.runs.checkpoint import POLICY, Checkpoint


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return compose(["env=toy", "model=toy", "algorithm=ppo"])


@pytest.fixture
def checkpoint(tmp_path, config) -> Checkpoint:
    policy = ToyPolicy(config.actor.model, env_spec=env_spec(config.env.train))
    folder = save_checkpoint(tmp_path / "checkpoints", 1, save_policy=policy.save_pretrained)
    return load_checkpoint(folder)


@pytest.fixture
def to(config, checkpoint):
    return lambda target: export(config, checkpoint, target, load_plugins()).path


def test_a_file_is_not_replaced(tmp_path, to, refused):
    notes = tmp_path / "notes"
    notes.write_text("mine")
    for target in (notes, notes / "deep" / "out"):
        with refused(ConfigError, target, f"{notes} is a file"):
            to(target)
    assert notes.read_text() == "mine"


def test_a_checkpoint_is_not_exported_into_itself(tmp_path, checkpoint, to, refused):
    held = sorted(tmp_path.rglob("*"))
    (tmp_path / "link").symlink_to(checkpoint.path)
    places = [checkpoint.path / POLICY / "out", checkpoint.path / "out", tmp_path / "link" / "out"]
    for place in places:
        with refused(ConfigError, place.resolve()):
            to(place)
    (tmp_path / "link").unlink()
    assert sorted(tmp_path.rglob("*")) == held


@pytest.mark.parametrize("inside", ["checkpoints/out", "checkpoints/step_000009", "eval/a/b"])
@pytest.mark.parametrize("whose", ["own", "other"])
def test_the_folder_of_a_run_is_refused(tmp_path, checkpoint, to, refused, inside, whose):
    run = tmp_path if whose == "own" else tmp_path / "other"
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    (run / "config.yaml").write_text("")
    with refused(ConfigError, run / inside):
        to(run / inside)
    assert not (run / inside).exists()


def test_folders_without_permission_and_mounts_are_refused(tmp_path, to, refused, monkeypatch):
    """`os.access` is a stand-in: an administrator may do everything."""
    out = tmp_path / "out"
    out.mkdir()
    for path in (out, tmp_path):
        monkeypatch.setattr(os, "access", lambda asked, mode, path=path: asked != path)
        with refused(ConfigError, path):
            to(out)
    monkeypatch.setattr(os.path, "ismount", lambda asked: asked == out)
    with refused(ConfigError, out / "policy"):
        to(out)
    assert list(out.iterdir()) == []


def test_a_name_that_the_file_system_refuses_is_an_error(tmp_path, to, refused):
    with refused(CheckpointError, "longlong", text=False):
        to(tmp_path / ("long" * 100))


def test_links_are_followed(tmp_path, to):
    """Also one to a folder that is still to be made, and one to an empty folder."""
    for name in ("made", "empty"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
    (tmp_path / "empty").mkdir()
    for name in ("made", "empty"):
        assert to(tmp_path / f"to-{name}") == tmp_path / name
        assert (tmp_path / name / "model.safetensors").is_file()
