"""Checkpoints: exact round trip, whole or not there, one clear error for each way to be broken."""

import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors import SafetensorError

import rlcore
from rlcore.contracts.errors import CheckpointError
from rlcore.files import digests
from rlcore.runs.checkpoint import (
    find_checkpoint,
    load_checkpoint,
    named_checkpoint,
    save_checkpoint,
    writing,
)
from rlcore.runs.learner_state import read_learner, write_learner
from rlcore.runs.state import FORMAT_VERSION


def save_policy(path):
    (path / "model.safetensors").write_bytes(b"weights" * 10)
    (path / "assets").mkdir()
    (path / "assets" / "stats.json").write_text("{}")


def save(folder, step, tensors=None, state=None, **marks):
    def save_learner(path):
        write_learner(path, {"tensors": tensors, "state": {}})

    return save_checkpoint(
        folder,
        step,
        save_policy=save_policy,
        save_learner=None if tensors is None else save_learner,
        state=state,
        **marks,
    )


def test_what_is_written(tmp_path):
    path = save(tmp_path, 10, {"a": torch.zeros(2)}, {"env_steps": 1200, "lr": 0.1})
    assert path == tmp_path / "step_000010"
    assert sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()) == [
        "actor/assets/stats.json",
        "actor/model.safetensors",
        "learner.json",
        "learner.safetensors",
        "state.json",
    ]
    assert (tmp_path / "latest").read_text().strip() == "step_000010"
    assert {p.name for p in tmp_path.iterdir()} == {"latest", "step_000010"}
    read = load_checkpoint(path)
    assert (read.step, read.state) == (10, {"env_steps": 1200, "lr": 0.1})
    assert read.policy_path == path / "actor"


def test_found_by_itself_by_its_folder_and_by_its_run(tmp_path):
    checkpoints = tmp_path / "run" / "checkpoints"
    first, second = save(checkpoints, 1), save(checkpoints, 2)
    assert find_checkpoint(first) == first
    assert find_checkpoint(checkpoints) == second
    assert find_checkpoint(tmp_path / "run") == second


def test_found_by_its_name(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        named_checkpoint(tmp_path / "checkpoints", "latest")
    first = save(tmp_path, 10)
    second = save(tmp_path, 20)
    assert named_checkpoint(tmp_path, "latest") == second
    assert named_checkpoint(tmp_path, "step_000010") == first
    with pytest.raises(CheckpointError, match="has no checkpoint 'best'") as error:
        named_checkpoint(tmp_path, "best")
    assert "runner.keep_best=true" in error.value.hint
    third = save(tmp_path, 30, best=True)
    assert named_checkpoint(tmp_path, "best") == third
    with pytest.raises(CheckpointError, match=r"mean .*20.*step_000010, .*step_000030\."):
        named_checkpoint(tmp_path, "step_00020")


def test_no_checkpoint_of_the_run_is_written_over(tmp_path):
    save(tmp_path, 5, state={"try": 1})
    with pytest.raises(CheckpointError, match=r"step_000005: .*it exists already"):
        save(tmp_path, 5, state={"try": 2})
    assert load_checkpoint(tmp_path).state == {"try": 1}


def test_a_save_that_fails_leaves_the_last_one(tmp_path):
    save(tmp_path, 1)

    def fails(path):
        (path / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(CheckpointError, match=r"can't write .*step_000002: disk full"):
        save_checkpoint(tmp_path, 2, save_policy=fails)
    assert {p.name for p in tmp_path.iterdir()} == {"latest", "step_000001"}
    assert load_checkpoint(tmp_path).step == 1


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (OSError(errno.EIO, "Input/output error"), False),
        (SafetensorError("I/O error: No space left on device (os error 28)"), True),
        (SafetensorError("I/O error: Permission denied (os error 13)"), False),
    ],
)
def test_space_is_asked_for_where_it_is_missing(tmp_path, error, full):
    with pytest.raises(CheckpointError) as caught, writing(tmp_path):
        raise error
    assert ("free some space" in caught.value.hint) == full
    assert "earlier checkpoints are whole" in caught.value.hint


def test_a_killed_save_leaves_the_last_one(tmp_path):
    save(tmp_path, 1)
    code = (
        "import os, sys; from pathlib import Path; "
        "from rlcore.runs.checkpoint import save_checkpoint; "
        "save_checkpoint(Path(sys.argv[1]), 2, save_policy=lambda p: os._exit(9))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == 9
    assert load_checkpoint(tmp_path).step == 1
    save(tmp_path, 2)
    assert set(tmp_path.glob("*step_*")) == {tmp_path / "step_000001", tmp_path / "step_000002"}


def read_bytes():
    """Bytes that this process has read by system calls."""
    with open("/proc/self/io") as file:
        return int(file.readline().removeprefix("rchar:"))


@pytest.mark.skipif(sys.platform != "linux", reason="counts bytes by /proc/self/io")
def test_of_a_large_checkpoint_only_sizes_and_headers_are_read(tmp_path, monkeypatch):
    size = 5 << 30  # 5 GiB of zeros, which take no room on the disk

    def save_sparse(path):
        header = {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
        text = json.dumps(header).encode()
        with (path / "model.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + size)
        (path / "config.json").write_text("{}")

    with monkeypatch.context() as unread:  # hashing it here would take long
        unread.setattr(digests, "_digest", lambda path: hashlib.sha256(b"{}").hexdigest())
        path = save_checkpoint(tmp_path, 1, save_policy=save_sparse)
    before = read_bytes()
    assert load_checkpoint(tmp_path).step == 1
    assert read_bytes() - before < 1 << 20
    os.truncate(path / "actor" / "model.safetensors", size)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load_checkpoint(tmp_path)


def test_a_change_of_equal_size_in_a_large_file_is_found_on_request(tmp_path, monkeypatch):
    path = save(tmp_path, 1, {"a": torch.zeros(100)})
    large, small = path / "learner.safetensors", path / "actor" / "model.safetensors"
    monkeypatch.setattr(digests, "READ_ALWAYS", large.stat().st_size)
    for file, always in ((large, False), (small, True)):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + b"\1")
        with contextlib.nullcontext() if not always else pytest.raises(CheckpointError):
            load_checkpoint(path)
        with pytest.raises(CheckpointError, match=f"{file.name} is damaged .*sha256"):
            load_checkpoint(path, verify=True)
        file.write_bytes(whole)
    assert load_checkpoint(path, verify=True).step == 1


def cut(file):
    file.write_bytes(file.read_bytes()[:-5])


def same_size_garbage(file):
    file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("learner.safetensors", cut, r"learner\.safetensors is damaged"),
        ("learner.safetensors", same_size_garbage, r"learner\.safetensors is damaged"),
        ("actor/model.safetensors", cut, r"model\.safetensors is damaged"),
        ("actor/model.safetensors", lambda file: file.unlink(), "incomplete"),
        ("state.json", cut, r"state\.json is damaged"),
        ("state.json", lambda file: file.write_text('{"a": 1}'), "not a checkpoint of rlcore"),
        ("state.json", lambda file: file.unlink(), "it has no state.json but actor"),
    ],
)
def test_damage_is_named(tmp_path, name, damage, message):
    path = save(tmp_path, 1, {"a": torch.zeros(4)})
    damage(path / name)
    with pytest.raises(CheckpointError, match=message):
        read_learner(load_checkpoint(path).path)


def flip(file, at):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


def test_a_flipped_bit_is_noticed(tmp_path):
    save(tmp_path, 1)
    path = save(tmp_path, 2, {"a": torch.ones(4)})
    for name in ("learner.safetensors", "actor/model.safetensors"):
        whole = (path / name).read_bytes()
        flip(path / name, -1)  # the last byte of a tensor: names, shapes and sizes are right
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path)
        expected, found = (
            hashlib.sha256(b).hexdigest() for b in (whole, (path / name).read_bytes())
        )
        assert f"{path / name} is damaged" in caught.value.message
        assert f"sha256 is {found}, it was written with {expected}" in caught.value.message
        # whatever the command: resume, eval, replay and export all take its folder
        assert (
            caught.value.hint
            == f"take the newest before it that is whole: {tmp_path / 'step_000001'}"
        )
        (path / name).write_bytes(whole)
    assert load_checkpoint(path).step == 2


def with_segment(folder, step):
    """A checkpoint with a file that a later one has a hard link to, as segments of a replay are."""
    return save_checkpoint(
        folder,
        step,
        save_policy=save_policy,
        save_learner=lambda path: (
            write_learner(path, {"tensors": {"a": torch.ones(4)}, "state": {}}),
            shared_file(folder, path),
        ),
    )


def shared_file(folder, path):
    earlier = sorted(folder.glob("step_*/replay-0.safetensors"))
    if earlier:
        os.link(earlier[0], path / "replay-0.safetensors")
    else:
        (path / "replay-0.safetensors").write_bytes(b"a segment")


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_the_checkpoint_to_take_instead_is_whole(tmp_path, damage):
    """Steps 2 to 4 share a file: the one to take is step 1. With step 1 damaged too, none is."""
    save(tmp_path, 1)
    paths = [with_segment(tmp_path, step) for step in (2, 3, 4)]
    segment = paths[-1] / "replay-0.safetensors"
    if damage == "flip":
        flip(segment, 3)
    else:
        os.truncate(segment, 4)
    assert segment.samefile(paths[0] / "replay-0.safetensors")
    with pytest.raises(CheckpointError, match="replay-0") as caught:
        load_checkpoint(tmp_path)
    first = tmp_path / "step_000001"
    assert caught.value.hint == f"take the newest before it that is whole: {first}"
    assert load_checkpoint(first).step == 1
    flip(first / "actor" / "model.safetensors", 0)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path)
    assert "none of the checkpoints before it is whole" in caught.value.hint


@pytest.mark.parametrize("digest", ["sha256", "sha256_of_the_rest"])
def test_a_checkpoint_without_digests_is_refused(tmp_path, digest):
    path = save(tmp_path, 1)
    facts = json.loads((path / "state.json").read_text())
    del facts[digest]
    (path / "state.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match=f"{digest} must be a"):
        load_checkpoint(path)


def test_missing_and_foreign(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "gone")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin") as caught:
        load_checkpoint(tmp_path)
    assert "step_000010" in caught.value.hint


@pytest.mark.parametrize(
    ("manifest", "writer"),
    [
        (None, "another version of rlcore, or another program,"),
        ('{"versions": {"rlcore": "0.0.3"}, "git": null}', "rlcore 0.0.3"),
        (
            json.dumps({"versions": {"rlcore": rlcore.__version__}, "git": {"commit": "0" * 40}}),
            f"another build of rlcore {rlcore.__version__} (commit 0000000000)",
        ),
        ('{"versions": {"rlcore": "\\u001b[31m"}, "git": null}', "another version of rlcore, or"),
        ('{"versions": 5, "git": "x"}', "another version of rlcore, or another program,"),
    ],
)
def test_another_format_is_refused_with_the_version_that_wrote_it(tmp_path, manifest, writer):
    folder = tmp_path / "checkpoints"
    save(folder, 1)
    path = save(folder, 2)
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    facts = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps({**facts, "version": 99}))
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    said = f"has checkpoint format 99, this version reads {FORMAT_VERSION}: {writer}"
    assert said in caught.value.message
    assert caught.value.hint == (
        "the version that wrote it reads it; a new run can begin with its policy: "
        f"actor.model.model_path={path / 'actor'}"
    )


def test_a_checkpoint_under_the_name_of_another_is_refused(tmp_path):
    save(tmp_path, 2).rename(tmp_path / "step_000007")
    with pytest.raises(CheckpointError, match="after update 2: it was renamed") as caught:
        load_checkpoint(tmp_path)
    assert str(tmp_path / "step_000002") in (caught.value.hint or "")
    (tmp_path / "step_000007").rename(tmp_path / "kept")  # a copy may be called anything
    assert load_checkpoint(tmp_path / "kept").step == 2
