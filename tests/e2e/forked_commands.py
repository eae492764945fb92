"""`rlcore` commands in forks of a process that has imported all there is to import, so that each
takes the time of its work only; recorded, or killed in the middle of it."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from file_events import Recorder, State, Store, watch

KILLED, RAISED = 99, 98
MOST_SECONDS = 240  # of one command; it takes one where nobody else is at work
LOGS = "logs"
"""The folder, in the place where a command runs, that is watched."""
TRACKED = "tensorboard"
SAID, EVENTS = "said.txt", "events.txt"


@dataclass(frozen=True)
class Ended:
    """How a command came out: its exit code, what it said, and the events it got to."""

    code: int
    said: str
    events: int


def command(words: Sequence[str], place: Path, kill_at: int | None = None) -> Ended:
    """`rlcore WORDS`, run in `place` and killed before its event number `kill_at` (from 1)."""
    counted = place / EVENTS

    def run() -> int:
        events = 0

        def tell(event: str, names: list[str]) -> None:
            nonlocal events
            events += 1
            if events == kill_at:
                os._exit(KILLED)

        watch(place / LOGS, tell, TRACKED)
        try:
            return _main(words)
        finally:
            counted.write_text(str(events))

    counted.write_text("0")
    code = forked(run, place)
    return Ended(code, (place / SAID).read_text(encoding="utf-8"), int(counted.read_text()))


def record(words: Sequence[str], place: Path, store: Store) -> list[State]:
    """The states of `place / "logs"` while the command runs undisturbed."""
    kept = place / "states.json"

    def run() -> int:
        recorder = Recorder(place / LOGS, store, TRACKED)
        recorder.watch()
        code = _main(words)
        recorder.end()
        kept.write_text(State.dump(recorder.states))
        return code

    code = forked(run, place)
    assert code == 0, (place / SAID).read_text(encoding="utf-8")
    return State.load(kept.read_text())


def forked(run: Callable[[], int], place: Path) -> int:
    """The exit code of `run` in a fork that works in `place`; what it says goes to a file there. A
    fork that hangs is ended."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)
    code = RAISED
    try:
        signal.alarm(MOST_SECONDS)
        text = os.open(place / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(text, 1)
        os.dup2(text, 2)
        os.chdir(place)
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(words: Sequence[str]) -> int:
    code: int = importlib.import_module("rlcore.cli.main").main(list(words))
    return code
