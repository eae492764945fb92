"""Checkpoints: exact round trip, whole or absent, one error for each kind of damage."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from internals import OtherVersionError
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


def test_files_of_a_checkpoint(tmp_path):
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


def test_a_checkpoint_is_found_by_its_folder_and_by_its_run(tmp_path):
    checkpoints = tmp_path / "run" / "checkpoints"
    first = save(checkpoints, 1)
    second = save(checkpoints, 2)
    assert find_checkpoint(first) == first
    assert find_checkpoint(checkpoints) == second
    assert find_checkpoint(tmp_path / "run") == second


def test_a_checkpoint_is_found_by_its_name(refused, tmp_path):
    with refused(CheckpointError, tmp_path / "checkpoints"):
        named_checkpoint(tmp_path / "checkpoints", "latest")
    first = save(tmp_path, 10)
    second = save(tmp_path, 20)
    assert named_checkpoint(tmp_path, "latest") == second
    assert named_checkpoint(tmp_path, "step_000010") == first
    with refused(CheckpointError, "'best'", "runner.keep_best=true"):
        named_checkpoint(tmp_path, "best")
    third = save(tmp_path, 30, best=True)
    assert named_checkpoint(tmp_path, "best") == third
    with refused(CheckpointError, "step_00020", "step_000010", "step_000020", "step_000030"):
        named_checkpoint(tmp_path, "step_00020")


def test_a_checkpoint_of_the_run_is_not_overwritten(refused, tmp_path):
    save(tmp_path, 5, state={"try": 1})
    with refused(CheckpointError, "step_000005"):
        save(tmp_path, 5, state={"try": 2})
    assert load_checkpoint(tmp_path).state == {"try": 1}


def test_a_save_that_fails_leaves_the_last_one(refused, tmp_path):
    save(tmp_path, 1)

    def fails(path):
        (path / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    with refused(CheckpointError, "step_000002", "disk full"):
        save_checkpoint(tmp_path, 2, save_policy=fails)
    assert {p.name for p in tmp_path.iterdir()} == {"latest", "step_000001"}
    assert load_checkpoint(tmp_path).step == 1


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (SafetensorError("I/O error: No space left on device (os error 28)"), True),
        (SafetensorError("I/O error: Permission denied (os error 13)"), False),
    ],
)
def test_a_full_disk_asks_for_space(refused, tmp_path, error, full):
    with refused(CheckpointError, tmp_path, "rlcore resume RUN") as caught, writing(tmp_path):
        raise error
    assert ("free some space" in caught.value.hint) == full


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
def test_of_a_large_checkpoint_only_sizes_and_headers_are_read(refused, tmp_path, monkeypatch):
    size = 1 << 26
    monkeypatch.setattr(digests, "READ_ALWAYS", size // 2)

    def save_sparse(path):
        header = {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
        text = json.dumps(header).encode()
        with (path / "model.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + size)
        (path / "config.json").write_text("{}")

    path = save_checkpoint(tmp_path, 1, save_policy=save_sparse)
    before = read_bytes()
    assert load_checkpoint(tmp_path).step == 1
    assert read_bytes() - before < 1 << 20
    os.truncate(path / "actor" / "model.safetensors", size)
    with refused(CheckpointError, "model.safetensors"):
        load_checkpoint(tmp_path)


def test_a_change_of_equal_size_in_a_large_file_is_found_on_request(refused, tmp_path, monkeypatch):
    path = save(tmp_path, 1, {"a": torch.zeros(100)})
    large = path / "learner.safetensors"
    small = path / "actor" / "model.safetensors"
    monkeypatch.setattr(digests, "READ_ALWAYS", large.stat().st_size)
    whole = large.read_bytes()
    large.write_bytes(whole[:-1] + b"\1")
    assert load_checkpoint(path).step == 1
    with refused(CheckpointError, large.name, "sha256", text=False):
        load_checkpoint(path, verify=True)
    large.write_bytes(whole)
    assert load_checkpoint(path, verify=True).step == 1
    small.write_bytes(small.read_bytes()[:-1] + b"\1")
    with refused(CheckpointError, small.name, "sha256", text=False):
        load_checkpoint(path)


def cut(file):
    file.write_bytes(file.read_bytes()[:-5])


def same_size_garbage(file):
    file.write_bytes(b"\xff" * file.stat().st_size)


def foreign(file):
    file.write_text('{"a": 1}')


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("learner.safetensors", cut),
        ("learner.safetensors", same_size_garbage),
        ("actor/model.safetensors", cut),
        ("actor/model.safetensors", os.unlink),
        ("state.json", cut),
        ("state.json", foreign),
        ("state.json", os.unlink),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_file(refused, tmp_path, name, damage):
    path = save(tmp_path, 1, {"a": torch.zeros(4)})
    damage(path / name)
    with refused(CheckpointError, path, Path(name).name, text=False):
        read_learner(load_checkpoint(path).path)


def flip(file, at):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["learner.safetensors", "actor/model.safetensors"])
def test_a_flipped_bit_is_noticed(refused, tmp_path, name):
    first = save(tmp_path, 1)
    path = save(tmp_path, 2, {"a": torch.ones(4)})
    expected = hashlib.sha256((path / name).read_bytes()).hexdigest()
    flip(path / name, -1)  # the last byte of a tensor: names, shapes and sizes are right
    found = hashlib.sha256((path / name).read_bytes()).hexdigest()
    # the hint names a folder, which all commands take: resume, eval, replay and export
    with refused(CheckpointError, path / name, found, expected, first, text=False):
        load_checkpoint(path)
    flip(path / name, -1)
    assert load_checkpoint(path).step == 2


def with_segment(folder, step):
    """Save a checkpoint with a file that later ones link to, as segments of a replay are."""
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
def test_the_checkpoint_to_take_instead_is_whole(refused, tmp_path, damage):
    """Steps 2 to 4 share a file: the one to take is step 1. With step 1 damaged too, none is."""
    first = save(tmp_path, 1)
    paths = [with_segment(tmp_path, step) for step in (2, 3, 4)]
    segment = paths[-1] / "replay-0.safetensors"
    if damage == "flip":
        flip(segment, 3)
    else:
        os.truncate(segment, 4)
    assert segment.samefile(paths[0] / "replay-0.safetensors")
    with refused(CheckpointError, segment.name, first, text=False):
        load_checkpoint(tmp_path)
    assert load_checkpoint(first).step == 1
    flip(first / "actor" / "model.safetensors", 0)
    with refused(CheckpointError, segment.name, text=False) as error:
        load_checkpoint(tmp_path)
    assert "step_0" not in error.value.hint


@pytest.mark.parametrize("digest", ["sha256", "sha256_of_the_rest"])
def test_a_checkpoint_without_digests_is_refused(refused, tmp_path, digest):
    path = save(tmp_path, 1)
    facts = json.loads((path / "state.json").read_text())
    del facts[digest]
    (path / "state.json").write_text(json.dumps(facts))
    with refused(CheckpointError, digest):
        load_checkpoint(path)


def test_a_folder_without_a_checkpoint_is_refused(refused, tmp_path):
    with refused(CheckpointError, tmp_path / "gone"):
        load_checkpoint(tmp_path / "gone")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with refused(CheckpointError, "pytorch_model.bin", "step_000010"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "writer"),
    [
        (None, "another version of rlcore, or another program"),
        ('{"versions": {"rlcore": "0.0.3"}, "git": null}', "rlcore 0.0.3"),
        (
            json.dumps({"versions": {"rlcore": rlcore.__version__}, "git": {"commit": "0" * 40}}),
            f"another build of rlcore {rlcore.__version__} (commit 0000000000)",
        ),
        ('{"versions": {"rlcore": "\\u001b[31m"}, "git": null}', "another version of rlcore"),
        ('{"versions": 5, "git": "x"}', "another version of rlcore"),
    ],
)
def test_another_format_is_refused_with_its_writer(refused, tmp_path, manifest, writer):
    folder = tmp_path / "checkpoints"
    save(folder, 1)
    path = save(folder, 2)
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    facts = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps({**facts, "version": 99}))
    policy = f"actor.model.model_path={path / 'actor'}"
    with refused(OtherVersionError, "format 99", FORMAT_VERSION, writer, policy, text=False):
        load_checkpoint(folder)


def test_a_checkpoint_under_the_name_of_another_is_refused(refused, tmp_path):
    save(tmp_path, 2).rename(tmp_path / "step_000007")
    with refused(CheckpointError, "update 2", tmp_path / "step_000002"):
        load_checkpoint(tmp_path)
    (tmp_path / "step_000007").rename(tmp_path / "kept")  # a copy may be called anything
    assert load_checkpoint(tmp_path / "kept").step == 2
