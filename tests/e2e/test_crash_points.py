"""A run that is killed at any point of the file system goes on to the same bits, also when it is
killed again on the way. What is done and compared: :mod:`crash_points`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("crash_points.py")
SAMPLE = 2
LONG_SAMPLE = 60  # all 300 take an hour on two cores: `python tests/e2e/crash_points.py --jobs 2`

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def judge(work: Path, *options: str) -> None:
    """In a process of its own: forks of this one would have locks that threads of it held."""
    words = [sys.executable, str(HARNESS), "--work", str(work), "--jobs", "2", *options]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(900)
def test_some_points(tmp_path: Path):
    judge(tmp_path, "--sample", str(SAMPLE))


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_more_points(tmp_path: Path):
    judge(tmp_path, "--sample", str(LONG_SAMPLE))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "shape", ["auto", "groups", "replay", "edits", "noise", "plateau", "data", "older"]
)
def test_some_points_of_other_runs(tmp_path: Path, shape: str):
    judge(tmp_path, "--shape", shape, "--sample", "20")
