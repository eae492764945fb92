"""The history of a run, read from its checkpoints: true at any moment the run is killed."""

import shutil
from types import SimpleNamespace

import pytest

from rlcore.contracts.errors import CheckpointError
from rlcore.files import atomic
from rlcore.files.atomic import sweep
from rlcore.runs import history
from rlcore.runs.checkpoint import find_checkpoint, load_checkpoint, named_checkpoint
from rlcore.runs.checkpoint import save_checkpoint as save_with
from rlcore.runs.history import History, read_history, settle, supersede_newer


def save(folder, step, **marks):
    return save_with(
        folder, step, save_policy=lambda path: (path / "weights").write_text(str(step)), **marks
    )


def names(folder):
    return sorted(path.name for path in folder.glob("step_*"))


def cut_off(monkeypatch, function, *, after=0):
    """Raise KeyboardInterrupt in call number `after` of a function of the module."""
    calls = iter(range(100))
    real = getattr(history, function)

    def killed(*arguments):
        if next(calls) == after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(history, function, killed)


def half_removed(path, ignore_errors=False):
    if ignore_errors:  # of a folder that was not finished
        return
    (path / "state.json").unlink()
    raise KeyboardInterrupt


def test_latest_and_best_are_written_and_never_read(tmp_path):
    save(tmp_path, 1, best=True)
    save(tmp_path, 2)
    assert read_history(tmp_path) == History(("step_000001", "step_000002"), "step_000001")
    assert (tmp_path / "latest").read_text() == "step_000002\n"
    assert (tmp_path / "best").read_text() == "step_000001\n"
    (tmp_path / "latest").write_text("step_000001\n")
    (tmp_path / "best").unlink()
    assert find_checkpoint(tmp_path).name == "step_000002"
    assert named_checkpoint(tmp_path, "best").name == "step_000001"
    settle(tmp_path)
    assert (tmp_path / "latest").read_text() == "step_000002\n"
    assert (tmp_path / "best").read_text() == "step_000001\n"


def test_a_kill_between_a_checkpoint_and_the_names_of_latest_and_best(tmp_path, monkeypatch):
    save(tmp_path, 1)
    with monkeypatch.context() as patch:
        cut_off(patch, "write_text")
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, best=True)
    assert find_checkpoint(tmp_path).name == "step_000002"
    assert not (tmp_path / "best").exists()  # a reader changes nothing
    settle(tmp_path)
    assert (tmp_path / "latest").read_text() == (tmp_path / "best").read_text() == "step_000002\n"


def test_a_kill_before_old_checkpoints_are_removed(tmp_path, monkeypatch):
    save(tmp_path, 1)
    with monkeypatch.context() as patch:
        cut_off(patch, "remove_folder")
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["step_000001", "step_000002"]
    assert read_history(tmp_path) == History(("step_000002",))
    settle(tmp_path)  # ends as it would have ended
    assert names(tmp_path) == ["step_000002"]


@pytest.mark.parametrize("after", range(2))
def test_settle_thins_what_a_kill_left(tmp_path, monkeypatch, after):
    """With 3 the best and the newest, 1 and 2 go: killed before either of them."""
    folder = tmp_path / "killed"
    undisturbed = tmp_path / "undisturbed"
    for step in (1, 2, 3):
        save(undisturbed, step, best=step != 2, keep=1)
    for step in (1, 2):
        save(folder, step, best=step != 2, keep=1)
    with monkeypatch.context() as patch:
        cut_off(patch, "remove_folder", after=after)
        with pytest.raises(KeyboardInterrupt):
            save(folder, 3, best=True, keep=1)
    settle(folder)
    assert read_history(folder) == History(("step_000003",), "step_000003")
    assert names(folder) == names(undisturbed) == ["step_000003"]


def test_keep_last_keeps_latest_and_best(tmp_path):
    # best 5, the newest one: after 20 the lineage is 5, 20
    for step in (5, 10, 15, 20):
        save(tmp_path, step, best=step == 5, keep=1)
    assert names(tmp_path) == ["step_000005", "step_000020"]
    save(tmp_path, 25, best=True, keep=1)
    assert names(tmp_path) == ["step_000025"]
    save(tmp_path, 1_000_000, keep=2)  # in the order of steps, not of letters
    save(tmp_path, 1_000_001, keep=2)
    assert names(tmp_path) == ["step_000025", "step_1000000", "step_1000001"]


def test_a_kill_while_old_checkpoints_are_removed(tmp_path, monkeypatch):
    save(tmp_path, 1)
    save(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "shutil", SimpleNamespace(rmtree=half_removed))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 3, keep=1)
    assert load_checkpoint(tmp_path).step == 3
    sweep(tmp_path)  # as whoever holds the folder of the run does first
    settle(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step_000003"]


def test_folders_with_other_names_are_left_alone(tmp_path):
    shutil.copytree(save(tmp_path, 1), tmp_path / "step_000001.bak")
    for step in (2, 3):
        settle(tmp_path)
        save(tmp_path, step, keep=1)
    assert names(tmp_path) == ["step_000001.bak", "step_000003"]


def test_a_copy_under_the_name_of_a_later_one_is_refused_or_superseded(refused, tmp_path):
    shutil.copytree(save(tmp_path, 1), tmp_path / "step_000009")
    save(tmp_path, 2)
    with refused(CheckpointError, "update 1", f"move this copy out of {tmp_path}"):
        load_checkpoint(tmp_path)
    assert supersede_newer(tmp_path, "step_000002") == ["step_000009"]
    assert load_checkpoint(tmp_path).step == 2


def test_newer_checkpoints_are_superseded(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step, best=step != 2, keep=3)
    assert supersede_newer(tmp_path, "step_000002") == ["step_000003"]
    # 3 was the best; at 2 it was 1
    assert read_history(tmp_path) == History(("step_000001", "step_000002"), "step_000001")
    assert names(tmp_path) == ["step_000001", "step_000002"]
    assert names(tmp_path / "superseded") == ["step_000003"]
    assert (tmp_path / "latest").read_text() == "step_000002\n"
    save(tmp_path, 3, keep=1)
    assert names(tmp_path) == ["step_000001", "step_000003"]
    assert supersede_newer(tmp_path, "step_000003") == []
    supersede_newer(tmp_path, "step_000001")
    assert names(tmp_path / "superseded") == ["step_000003", "step_000003-2"]


@pytest.mark.parametrize("at", range(3))
def test_a_kill_while_newer_checkpoints_are_superseded(tmp_path, monkeypatch, at):
    for step in range(1, 5):
        save(tmp_path, step, best=step == 4)
    with monkeypatch.context() as patch:
        cut_off(patch, ["move", "move", "write_text"][at], after=at % 2)
        with pytest.raises(KeyboardInterrupt):
            supersede_newer(tmp_path, "step_000002")
    # killed before 4 moved, before 3 did, and after both: the run stands at the newest that is left
    assert read_history(tmp_path).latest == f"step_00000{4 - at}"
    settle(tmp_path)
    supersede_newer(tmp_path, "step_000002")  # the command again
    assert read_history(tmp_path) == History(("step_000001", "step_000002"))
    assert names(tmp_path) == ["step_000001", "step_000002"]
    assert names(tmp_path / "superseded") == ["step_000003", "step_000004"]
    assert (tmp_path / "latest").read_text() == "step_000002\n"
    assert not (tmp_path / "best").exists()


def test_a_superseded_checkpoint_is_not_resumed_from(refused, tmp_path):
    for step in (1, 2):
        save(tmp_path, step)
    supersede_newer(tmp_path, "step_000001")
    save(tmp_path, 3)
    shutil.move(tmp_path / "superseded" / "step_000002", tmp_path)
    assert read_history(tmp_path).lineage == ("step_000001", "step_000003")
    with refused(CheckpointError, "step_000002", "actor.model.model_path"):
        supersede_newer(tmp_path, "step_000002")


def test_the_newest_present_checkpoint_has_the_history(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step, best=step == 2)
    shutil.rmtree(tmp_path / "step_000001")
    assert read_history(tmp_path) == History(("step_000002", "step_000003"), "step_000002")
    shutil.rmtree(tmp_path / "step_000003")
    assert read_history(tmp_path) == History(("step_000002",), "step_000002")


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_a_damaged_newest_checkpoint_is_refused(refused, tmp_path, text):
    first = save(tmp_path, 1)
    newest = save(tmp_path, 2, keep=2)
    (newest / "state.json").unlink()
    if text is not None:
        (newest / "state.json").write_text(text)
    with refused(CheckpointError, newest, first, text=False):
        load_checkpoint(tmp_path)
    settle(tmp_path)  # leaves it to be looked at
    assert names(tmp_path) == ["step_000001", "step_000002"]
    assert supersede_newer(tmp_path, "step_000001") == ["step_000002"]
    assert load_checkpoint(tmp_path).step == 1
