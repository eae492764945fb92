"""What a command that has ended left behind: processes, shared memory, half-written files."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from parts.command import Command, title

SHARED_MEMORY = Path("/dev/shm")
LOOKS = (10.0, 60.0)  # seconds after the end at which processes are counted
PATIENCE = 100.0  # Ray's agents look after a killed raylet about once a minute


@dataclass(frozen=True)
class Leftovers:
    """After the end of a command.

    Attributes:
        alive: processes alive that many seconds after the end, by :data:`LOOKS`.
        gone_after: seconds until the last process had ended; None: some never did.
        orphans: command lines of those.
        shared_memory: names in /dev/shm that are new and held by no living process.
        partial: half-written files and folders in the run's folder.
    """

    alive: tuple[int, ...]
    gone_after: float | None
    orphans: tuple[str, ...]
    shared_memory: tuple[str, ...]
    partial: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not (self.orphans or self.shared_memory or self.partial)


def shared_memory() -> frozenset[str]:
    """Names of all segments there are."""
    return frozenset(entry.name for entry in SHARED_MEMORY.iterdir())


def look(command: Command, ended: float, before: Iterable[str]) -> Leftovers:
    """Watch the processes of an ended command until they are gone, then look around.

    Args:
        ended: when it ended, of `time.monotonic`.
        before: :func:`shared_memory` before it began.
    """
    partial = tuple(sorted(
        str(path.relative_to(command.folder))
        for pattern in (".partial-*", ".old-*")
        for path in command.folder.rglob(pattern)
    ))  # fmt: skip
    counted: dict[float, int] = {}
    while True:
        left, since = command.processes(), time.monotonic() - ended
        for moment in LOOKS:
            if since >= min(moment, PATIENCE) or not left:
                counted.setdefault(moment, len(left))
        if not left or since >= PATIENCE:
            break
        time.sleep(0.2)
    new = shared_memory() - frozenset(before)
    return Leftovers(
        alive=tuple(counted[moment] for moment in LOOKS),
        gone_after=None if left else since,
        orphans=tuple(title(process) for process in left),
        # of others, some have been removed while it was asked who holds them
        shared_memory=tuple(sorted((new - _held(new)) & shared_memory())) if new else (),
        partial=partial,
    )


def _held(names: Iterable[str]) -> set[str]:
    """Those of the segments that a living process, of whomever, has mapped or open."""
    paths = {str(SHARED_MEMORY / name): name for name in names}
    held = set()
    for process in psutil.process_iter():
        try:
            used = [one.path for one in [*process.memory_maps(), *process.open_files()]]
        except psutil.Error:
            continue
        held |= {paths[path] for path in used if path in paths}
    return held
