"""The first signal asks a run to stop, the second stops it."""

from __future__ import annotations

import os
import signal

import pytest

from rlcore.utils.stopping import StopSignals


def test_the_second_signal_says_how_to_go_on() -> None:
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt), StopSignals(lines.append, "go on by this") as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested and len(lines) == 1 and "go on by this" not in lines[0]
        os.kill(os.getpid(), signal.SIGINT)
    assert len(lines) == 2 and "go on by this" in lines[1]
