"""Fixtures of the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from refused import refuse

from rlcore.training import session


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> Path:
    """In an empty folder, a command that makes a run folder or workers raises `Started`."""
    monkeypatch.setattr(session.RunFolder, "create", refuse)
    monkeypatch.setattr(session, "make_group", refuse)
    return elsewhere
