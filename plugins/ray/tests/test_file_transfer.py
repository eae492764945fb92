"""Folders that workers don't see: they arrive whole, in blocks, and nothing of them is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rlcore_ray import file_transfer
from rlcore_ray.file_transfer import Away, TransferFolder, at_hand

from rlcore.contracts.errors import CheckpointError
from rlcore.workers.roles import FOLDERS

BLOCK = 8  # bytes, so that small files are cut too


@pytest.fixture
def transfers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three workers' transfer folders, and what they were asked."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(file_transfer.tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(file_transfer, "BLOCK_BYTES", BLOCK)
    made = [TransferFolder() for _ in range(3)]
    asked: list[tuple[list[int], str]] = []
    largest = [0]

    def ask(ranks, question, *arguments):
        asked.append((list(ranks), question))
        answers = [getattr(made[rank], question)(*arguments) for rank in ranks]
        moved = [one.nbytes for one in (*arguments, *answers) if hasattr(one, "nbytes")]
        largest[0] = max([*largest, *moved])
        return answers

    yield ask, asked, largest
    for each in made:
        each.close()
    assert not list((tmp_path / "tmp").iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*.*")}


def fill(folder: Path) -> dict[str, bytes]:
    """Less than a block, exactly two, more than two, and nothing."""
    (folder / "deep").mkdir(parents=True)
    for name, size in (("a.bin", 3), ("b.bin", 2 * BLOCK), ("deep/c.bin", 21), ("empty.bin", 0)):
        (folder / name).write_bytes(bytes(range(size)))
    return files(folder)


def test_what_is_read_is_sent_once_to_each_node_that_lacks_it(tmp_path: Path, transfers):
    """Ranks 1 and 2 share a node apart; rank 0 sees the folder itself."""
    ask, asked, largest = transfers
    held = fill(tmp_path / "run")
    told = [{"path": str(tmp_path / "run"), "other": rank} for rank in range(3)]
    away = Away({1: 7, 2: 7}, {7: frozenset()})
    with at_hand(FOLDERS["load"], told, away, ask) as given:
        assert [one["other"] for one in given] == [0, 1, 2]
        assert given[0] == told[0] and given[1]["path"] == given[2]["path"] != told[1]["path"]
        assert files(Path(given[1]["path"])) == held
    assert {tuple(ranks) for ranks, _ in asked} == {(1,)}
    assert largest == [BLOCK]
    assert files(Path(given[1]["path"])) == held  # a policy may copy files when it is saved


def test_of_a_checkpoint_the_learner_reads_no_policy(tmp_path: Path, transfers):
    fill(tmp_path / "run")
    with at_hand(
        FOLDERS["load_learner"],
        [{"path": str(tmp_path / "run")}],
        Away({0: 1}, {1: frozenset()}),
        transfers[0],
    ) as given:
        place = Path(given[0]["path"])
        assert set(files(place)) == {"a.bin", "b.bin", "empty.bin"}
    assert not place.exists()


def test_what_each_rank_writes_is_fetched(tmp_path: Path, transfers):
    ask, _, largest = transfers
    here = tmp_path / "checkpoint"
    here.mkdir()
    told = [{"path": str(here)}] * 3
    away = Away({1: 4, 2: 4}, {4: frozenset()})
    with at_hand(FOLDERS["save_learner"], told, away, ask) as given:
        for rank, one in enumerate(given):
            (Path(one["path"]) / f"learner-{rank}.bin").write_bytes(bytes(range(10 * rank)))
        assert len({one["path"] for one in given}) == 3
        assert set(files(here)) == {"learner-0.bin"}
    assert files(here) == {f"learner-{rank}.bin": bytes(range(10 * rank)) for rank in range(3)}
    assert largest == [BLOCK]
    assert not any(Path(one["path"]).exists() for one in given[1:])


def test_what_a_node_has_of_its_own_is_not_sent(tmp_path: Path, transfers):
    ask, asked, _ = transfers
    told = [{"data": str(tmp_path / "demonstrations")}]
    away = Away({0: 1}, {1: frozenset({str(tmp_path / "demonstrations")})})
    with at_hand(FOLDERS["supervised"], told, away, ask) as given:
        assert given == told
    assert not [question for ranks, question in asked if ranks]


def test_one_rank_may_be_asked_alone(tmp_path: Path, transfers):
    """As `version` does: nothing is fetched of the others."""
    (tmp_path / "out").mkdir()
    away = Away({0: 1, 1: 1}, {1: frozenset()})
    with at_hand(FOLDERS["save"], [{"path": str(tmp_path / "out")}], away, transfers[0]) as given:
        (Path(given[0]["path"]) / "w.bin").write_bytes(b"123")
    assert files(tmp_path / "out") == {"w.bin": b"123"}


def test_a_disk_that_can_not_be_written_is_one_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_transfer.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match=r"can't write .*none: .*\n.*TMPDIR"):
        TransferFolder().open("path-0")


def test_what_a_killed_process_left_goes_with_the_next_folder(tmp_path: Path, monkeypatch):
    script = (
        f"import os, tempfile; tempfile.tempdir = {str(tmp_path)!r}\n"
        "from rlcore_ray.file_transfer import TransferFolder\n"
        "print(TransferFolder().open('path-0'), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    monkeypatch.setattr(file_transfer.tempfile, "tempdir", str(tmp_path))
    living, other = TransferFolder(), TransferFolder()
    place = Path(living.open("path-0"))
    assert not left.exists()
    other.open("path-0")
    assert place.is_dir()
    living.close()
    other.close()
    assert not list(tmp_path.iterdir())


def test_of_folders_that_are_kept_the_newest_is(tmp_path: Path, transfers):
    """Or each policy that was ever loaded would lie on the disk until the run ends."""
    ask, _, _ = transfers
    fill(tmp_path / "start")
    away = Away({0: 1}, {1: frozenset()})
    seen = []
    for _ in range(3):
        call = at_hand(FOLDERS["load"], [{"path": str(tmp_path / "start")}], away, ask)
        with call as (given,):
            assert files(Path(given["path"])) == files(tmp_path / "start")
            seen.append(Path(given["path"]))
    assert [path.is_dir() for path in seen] == [False, False, True]
