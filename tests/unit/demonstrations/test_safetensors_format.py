"""Demonstrations on disk: exact, resumable, refused where they don't fit, split by episode."""

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from demonstration_cases import COLLECT, SPEC, demonstration, write
from internals import OtherVersionError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import ActionChannel, CameraSpec, Episode, StateChannel
from rlcore.demonstrations import layout
from rlcore.demonstrations.datasets import DatasetSummary
from rlcore.demonstrations.layout import read_row
from rlcore.demonstrations.safetensors_format import (
    DemonstrationSet,
    DemonstrationWriter,
    SafetensorsFormat,
)


def assert_equal(read, written):
    assert read.episode == written.episode._replace(group=-1)
    assert (read.instruction, read.success) == (written.instruction, written.success)
    for mine, other in (
        (read.states, written.states),
        (read.actions, written.actions),
        (read.frame_steps, written.frame_steps),
        *((read.frames[name], written.frames[name]) for name in ("front", "wrist")),
    ):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    assert list(read.frames) == ["wrist", "front"]


def test_round_trip_in_canonical_order(tmp_path):
    written = [demonstration(1, 0), demonstration(0, 7, length=6), demonstration(0, 2, False)]
    read = write(tmp_path / "set", written)
    assert [row.episode[:2] for row in read.items] == [(0, 2), (0, 7), (1, 0)]
    for demo, other in zip(read, [written[2], written[1], written[0]], strict=True):
        assert_equal(demo, other)
    assert_equal(read[-1], written[0])
    assert (len(read), read.complete) == (3, True)
    assert read.starts() == {("push", 0), ("reach", 7), ("reach", 2)}
    assert read.starts(successful=True) == {("push", 0), ("reach", 7)}
    assert len(read[:2]) == 2


def test_files_are_plain_and_described(tmp_path):
    read = write(tmp_path / "set", [demonstration(1, 3)])
    (row,) = pq.read_table(tmp_path / "set" / "episodes.parquet").to_pylist()
    address = {"task_index": 1, "trial": 3, "replica": 0}
    content = {"task_description": "push the cube — now", "success": True, "length": 5}
    file = {"task": "push", "file": "data/episode_000000.safetensors"}
    assert row == address | content | file
    info = read.info
    assert info.cameras == {"front": [4, 6], "wrist": [2, 2]}
    reach = {"meaning": "ee_delta_position", "size": 3, "low": -1.0, "high": 1.0}
    assert info.actions[0] == {**reach, "frame": "base", "convention": ""}
    assert [channel["size"] for channel in info.actions] == [3, 1]
    assert info.tasks == ["reach", "push"]
    assert info.seed == 1
    wanted = asdict(COLLECT)
    del wanted["path"], wanted["output"], wanted["format"]
    assert info.collect == wanted
    assert "rlcore" in info.versions
    files = {path.name for path in (tmp_path / "set").rglob("*") if path.is_file()}
    assert files == {"info.json", "episodes.parquet", "episode_000000.safetensors"}


def test_failed_episodes_are_not_learned_from(tmp_path):
    read = write(
        tmp_path, [demonstration(0, 0), demonstration(0, 1, False), demonstration(1, 0, False)]
    )
    learned, held_back = read.split(0.0, seed=0)
    assert [row.episode[:2] for row in learned.items] == [(0, 0)] and not len(held_back)
    # of five steps, those before the first, the third and the fifth have a frame
    assert read.summary() == DatasetSummary(demonstrations=1, episodes=3, frames=3)


def test_an_interrupted_collection_is_readable_and_goes_on(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        DemonstrationWriter(tmp_path, SPEC, COLLECT, seed=1) as writer,
    ):
        writer.add(demonstration(0, 0))
        writer.add(demonstration(0, 1))
        raise KeyboardInterrupt
    partial = DemonstrationSet(tmp_path)
    assert (len(partial), partial.complete) == (2, False)

    with DemonstrationWriter(tmp_path, SPEC, COLLECT, seed=1) as writer:
        assert writer.episodes() == {Episode(0, 0), Episode(0, 1)}
        with pytest.raises(ValueError):
            writer.add(demonstration(0, 1))
        writer.add(demonstration(0, 2))
    read = DemonstrationSet(tmp_path)
    assert (len(read), read.complete) == (3, True)
    for trial, demo in enumerate(read):
        assert_equal(demo, demonstration(0, trial))


def test_a_full_disk_is_refused_with_the_file(refused, tmp_path, monkeypatch):
    """The tensor library has an error of its own for it, without a number."""

    def full(*arguments, **named):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with (
        refused(CheckpointError, "episode_000001.safe", "free some space"),
        DemonstrationWriter(tmp_path, SPEC, COLLECT, seed=1) as writer,
    ):
        writer.add(demonstration(0, 0))
        monkeypatch.setattr(layout, "save_file", full)
        writer.add(demonstration(0, 1))
    assert len(DemonstrationSet(tmp_path)) == 1


def test_a_removed_file_is_not_overwritten_by_the_next(tmp_path):
    write(tmp_path, [demonstration(0, 0), demonstration(0, 1)])
    (tmp_path / "data" / "episode_000000.safetensors").unlink()
    read = write(tmp_path, [demonstration(0, 2)])
    assert [row.episode.trial for row in read.items] == [1, 2]
    assert_equal(read[0], demonstration(0, 1))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"seed": 2}, "seed"),
        ({"collect": replace(COLLECT, action_noise=0.1)}, "collect"),
        ({"spec": replace(SPEC, tasks=("reach", "pull"))}, "tasks"),
    ],
)
def test_a_folder_of_other_settings_is_refused(refused, tmp_path, change, key):
    write(tmp_path, [demonstration()])
    settings = {"spec": SPEC, "collect": COLLECT, "seed": 1, **change}
    with refused(ConfigError, key):
        DemonstrationWriter(tmp_path, settings["spec"], settings["collect"], seed=settings["seed"])


def test_a_folder_of_other_files_is_left_alone(refused, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with refused(ConfigError, tmp_path, "collect.output"):
        DemonstrationWriter(tmp_path, SPEC, COLLECT, seed=1)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", [".partial-77-info.json", "info.json"])
def test_a_collection_killed_at_its_first_file_begins_anew(tmp_path, name):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).write_text('{"format": "rlc')
    SafetensorsFormat().check_folder(tmp_path / "d", SPEC, COLLECT, seed=0)
    write(tmp_path / "d", [demonstration()])
    assert len(DemonstrationSet(tmp_path / "d")) == 1
    assert not list((tmp_path / "d").glob(".partial*"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"actions": (ActionChannel("ee_delta_position", 3),)}, "action entries"),
        ({"cameras": SPEC.cameras[:1]}, "cameras"),
        ({"cameras": SPEC.cameras[::-1]}, "cameras"),  # policies take them by order
        ({"cameras": (SPEC.cameras[0], CameraSpec("front", 8, 6))}, "cameras"),
        ({"states": (StateChannel("joints", 7),)}, "state entries"),
        # as many entries, in metres
        ({"actions": (replace(SPEC.actions[0], low=-0.1, high=0.1), SPEC.actions[1])}, "actions"),
        ({"render_settings": {"fast_render": False}}, "fast_render"),
    ],
    ids=["actions", "camera", "order", "pixels", "states", "ranges", "rendering"],
)
def test_demonstrations_of_another_env_are_refused(refused, tmp_path, change, word):
    read = write(tmp_path, [demonstration()])
    read.check(SPEC)
    with refused(ConfigError, word, "rlcore collect"):
        read.check(replace(SPEC, **change))


def test_demonstrations_without_a_success_are_refused(refused, tmp_path):
    with refused(ConfigError, tmp_path, "rlcore collect"):
        write(tmp_path, [demonstration(0, 0, False)]).check(SPEC)


@pytest.mark.parametrize("name", ["states", "actions"])
def test_nan_in_a_demonstration_is_refused(refused, tmp_path, name):
    made = demonstration()
    vars(made)[name][1, 2] = np.nan
    with refused(CheckpointError, name, "step 1", "entry 2"):
        write(tmp_path / "set", [made])[0]


def test_missing_data_sets_are_refused(refused, tmp_path):
    with refused(CheckpointError, "gone", "rlcore collect"):
        DemonstrationSet(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with refused(CheckpointError, "empty", "info.json"):
        DemonstrationSet(tmp_path / "empty")


def test_damaged_data_sets_are_refused(refused, tmp_path):
    path = tmp_path / "set"
    read = write(path, [demonstration(0, 0), demonstration(0, 1)])
    first, second = (path / row.file for row in read.items)
    first.write_bytes(first.read_bytes()[:-10])
    second.unlink()
    for number, name in enumerate(("episode_000000.safetensors", "episode_000001.safetensors")):
        with refused(CheckpointError, name, text=False):
            read[number]
    for name, content in (
        ("episodes.parquet", b"PAR1"),
        ("info.json", b"[]"),
    ):
        (path / name).write_bytes(content)
        with refused(CheckpointError, name, text=False):
            DemonstrationSet(path)
    (path / "info.json").write_text('{"format": "lerobot", "version": 3}')
    with refused(OtherVersionError, "info.json", "lerobot 3", text=False):
        DemonstrationSet(path)


def change_tensors(file, **arrays):
    tensors = {**load_file(file), **arrays}
    row = read_row(file)
    save_file(tensors, file, metadata={"row": json.dumps(asdict(row))})


STATES = np.zeros((4, 3), np.float32)  # of an episode of 5 steps


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), []),
        (lambda file: change_tensors(file, states=STATES), ["states", "(4, 3)", "(5, 3)"]),
        (lambda file: change_tensors(file, stray=STATES), ["stray"]),
        (lambda file: file.unlink(), []),
    ],
    ids=["cut off", "shape", "another tensor", "missing"],
)
def test_a_folder_is_checked_by_headers(refused, tmp_path, damage, words):
    check_folder(tmp_path)  # a new folder
    write(tmp_path, [demonstration(0, 0), demonstration(0, 1)])
    check_folder(tmp_path)
    first = tmp_path / "data" / "episode_000000.safetensors"
    damage(first)
    with refused(CheckpointError, first.name, *words, text=False):
        check_folder(tmp_path)


def check_folder(path, spec=SPEC, seed=1):
    SafetensorsFormat().check_folder(path, spec, COLLECT, seed=seed)


def test_a_folder_of_other_demonstrations_is_refused(refused, tmp_path):
    path = tmp_path / "set"
    write(path, [demonstration(0, 0), demonstration(0, 1)])
    with refused(ConfigError, "cameras"):
        check_folder(path, spec=replace(SPEC, cameras=SPEC.cameras[:1]))
    (path / "episodes.parquet").unlink()  # as an interrupted collection leaves it
    check_folder(path)
    with refused(ConfigError, "seed 1", 2, "collect.output"):
        check_folder(path, seed=2)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    with refused(ConfigError, other, "collect.output"):
        check_folder(other)


# -- splitting --------------------------------------------------------------------------------


def addresses(part):
    return {row.episode for row in part.items}


def test_split_is_stratified_disjoint_and_keyed(tmp_path):
    read = write(tmp_path, [demonstration(t, i, length=2) for t in range(2) for i in range(10)])
    train, val = read.split(0.2, seed=3)
    # 20 episodes, 0.2 -> 4, two of each task
    assert [sum(row.task == task for row in val.items) for task in ("reach", "push")] == [2, 2]
    assert addresses(train) | addresses(val) == addresses(read)
    assert not addresses(train) & addresses(val)
    assert addresses(read.split(0.2, seed=3)[1]) == addresses(val)
    others = {frozenset(addresses(read.split(0.2, seed=s)[1])) for s in range(10)}
    assert len(others) > 5
    # which episodes of a task are held back does not depend on the other tasks
    pushes = write(tmp_path / "push", [demonstration(1, i, length=2) for i in range(10)])
    assert addresses(pushes.split(0.2, seed=3)[1]) == {
        row.episode for row in val.items if row.task == "push"
    }


@pytest.mark.parametrize(
    ("sizes", "fraction", "held"),
    [
        ((3, 2), 0.2, (1, 0)),  # round(1.0) = 1; remainders 0.6, 0.4
        ((2, 2), 0.1, 1),  # round(0.4) = 0, but at least one
        ((4, 4), 0.4, 3),  # round(3.2) = 3: 1 + 1 and one for a remainder of 0.6
        ((1, 3), 0.5, (0, 2)),  # the only episode of a task stays in training
        ((2, 2), 0.99, (1, 1)),  # something is always left to train on
    ],
)
def test_split_counts_by_hand(tmp_path, sizes, fraction, held):
    read = write(
        tmp_path, [demonstration(t, i, length=2) for t in range(2) for i in range(sizes[t])]
    )
    train, val = read.split(fraction, seed=0)
    counts = tuple(sum(row.episode.task == t for row in val.items) for t in range(2))
    assert (sum(counts) if isinstance(held, int) else counts) == held
    assert len(train) + len(val) == sum(sizes)


def test_a_fraction_without_a_split_is_refused(refused, tmp_path):
    read = write(tmp_path, [demonstration(0, 0), demonstration(1, 0)])
    assert [len(part) for part in read.split(0.0, seed=0)] == [2, 0]  # asked for none
    for fraction in (1.0, -0.5):
        with refused(ConfigError, "sft.val_fraction=0"):
            read.split(fraction, seed=0)
    with refused(ConfigError, "sft.val_fraction=0", "collect.episodes_per_task"):
        read.split(0.5, seed=0)
