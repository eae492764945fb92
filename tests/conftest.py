"""Fixtures of all tests of core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


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
