"""Fixtures of the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import session
from refused import refuse


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> Path:
    """In an empty folder, a command that makes a run folder or workers raises `Started`."""
    monkeypatch.setattr(session.RunFolder, "create", refuse)
    monkeypatch.setattr(session, "make_group", refuse)
    return elsewhere
