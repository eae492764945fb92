"""Where a policy can be exported to: each place that can't be taken has one error that fits."""

from __future__ import annotations

import os

import pytest
from internals import compose, load_checkpoint, save_checkpoint
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import env_spec
from rlcore_tools.export import export

from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, UserError
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


@pytest.fixture
def refused(to):
    """`refused(target)`: the whole error."""

    def ask(target, kind: type[UserError] = ConfigError) -> str:
        with pytest.raises(kind) as error:
            to(target)
        return str(error.value)

    return ask


def test_a_file_on_the_way(tmp_path, refused):
    notes = tmp_path / "notes"
    notes.write_text("mine")
    assert refused(notes) == f"{notes} is a file: export writes a folder"
    deep = notes / "deep" / "out"
    assert refused(deep) == f"{notes} is a file: {deep} can't be in it: export writes a folder"
    assert notes.read_text() == "mine"


def test_the_checkpoint_itself(tmp_path, checkpoint, refused):
    held = sorted(tmp_path.rglob("*"))
    (tmp_path / "link").symlink_to(checkpoint.path)
    places = [checkpoint.path / POLICY / "out", checkpoint.path / "out", tmp_path / "link" / "out"]
    for place in places:
        assert f"{place.resolve()} is inside the checkpoint" in refused(place)
    (tmp_path / "link").unlink()
    assert sorted(tmp_path.rglob("*")) == held


@pytest.mark.parametrize("inside", ["checkpoints/out", "checkpoints/step_000009", "eval/a/b"])
@pytest.mark.parametrize("whose", ["own", "other"])
def test_the_folder_of_a_run(tmp_path, checkpoint, refused, inside, whose):
    run = tmp_path if whose == "own" else tmp_path / "other"
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    (run / "config.yaml").write_text("")
    said = f"{run / inside} is inside the run {run}, which writes to its folder itself"
    assert said in refused(run / inside)
    assert not (run / inside).exists()


def test_folders_that_are_not_ours(tmp_path, refused, monkeypatch):
    """The system is asked, in its words here: it refuses an administrator nothing."""
    out = tmp_path / "out"
    out.mkdir()
    for path, said in (
        (out, f"can't read {out} "),
        (tmp_path, f"no permission to write to {tmp_path}"),
    ):
        monkeypatch.setattr(os, "access", lambda asked, mode, path=path: asked != path)
        assert said in refused(out)
    monkeypatch.setattr(os.path, "ismount", lambda asked: asked == out)
    assert f"name a folder in it: {out / 'policy'}" in refused(out)
    assert list(out.iterdir()) == []


def test_what_the_system_itself_refuses(tmp_path, refused):
    message = refused(tmp_path / ("long" * 100), CheckpointError)
    assert "can't write" in message and "name a folder elsewhere" in message


def test_links_are_followed(tmp_path, to):
    """Also one to a folder that is still to be made, and one to an empty folder."""
    for name in ("made", "empty"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
    (tmp_path / "empty").mkdir()
    for name in ("made", "empty"):
        assert to(tmp_path / f"to-{name}") == tmp_path / name
        assert (tmp_path / name / "model.safetensors").is_file()
