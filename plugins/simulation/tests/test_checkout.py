"""The commit of a checkout, in the ways in which git keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from rlcore_simulation.checkout import commit_of


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "main"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "one")
    return folder


@pytest.mark.parametrize("kept", [["pack-refs", "--all"], ["checkout", "--quiet", "--detach"], []])
def test_the_commit_that_is_checked_out(checkout: Path, kept: list[str]) -> None:
    if kept:
        git(checkout, *kept)
    first = git(checkout, "rev-parse", "HEAD")
    assert len(first) == 40 and commit_of(checkout) == first
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD") != first


def test_a_worktree_has_a_head_of_its_own(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "--quiet", str(tmp_path / "second"))
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert commit_of(tmp_path / "second") == git(checkout, "rev-parse", "HEAD~1")


def test_a_folder_without_a_commit_is_unknown(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    inside = checkout / "inside"
    for folder in (empty, inside):
        folder.mkdir()
    git(empty, "init", "--quiet")
    for folder in (empty, inside, tmp_path / "missing"):
        assert commit_of(folder) == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    assert commit_of(checkout) == "unknown"
