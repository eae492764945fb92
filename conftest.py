"""Fixtures of all tests, of core and of plugins."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell's background jobs begin with Ctrl-C ignored, and jobs under nohup with SIGHUP; a run heeds
# that, and so would all runs that tests start and strike.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """An empty folder for `runner.logger.log_path`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run the test from an empty folder, so that what it leaves behind is seen."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
