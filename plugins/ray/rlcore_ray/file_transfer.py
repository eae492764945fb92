"""Copy run folders to and from nodes without shared storage.

    driver --- blocks ---> folder of the first worker on a node     files its workers read
    driver <-- blocks ---- folder of each worker                    files it wrote

The loops name folders of the driver's machine. A worker on a node that does not see them gets a
folder of its own instead, below the system's temporary one. No object is larger than a block,
however large a policy is.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlcore.contracts.errors import CheckpointError
from rlcore.workers.roles import Folder

BLOCK_BYTES = 32 * 2**20
PREFIX = f"rlcore-{platform.node()}-"  # an error about a file in there says where it is
LOCK = "lock"  # held as long as its process lives
_numbers = count()


class TransferFolder:
    """Temporary folders of a worker, by key.

    :meth:`close` removes them. If the process is killed, the next process on this node that opens a
    folder removes them.
    """

    def __init__(self) -> None:
        self._base: Path | None = None
        self._lock: Any = None

    def open(self, key: str) -> str:
        """Make an empty folder; returns its path.

        Raises:
            CheckpointError: it can't be made.
        """
        with _writing(Path(tempfile.gettempdir())):
            if self._base is None:
                _sweep()
                self._base = Path(tempfile.mkdtemp(prefix=PREFIX))
                unlocked = self._base / "unlocked"  # a sweep must not meet one that is nobody's yet
                self._lock = unlocked.open("w")
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                unlocked.rename(self._base / LOCK)
            self._folder(key).mkdir()
        return str(self._folder(key))

    def sizes(self, key: str) -> dict[str, int]:
        """`{name: bytes}` of all files of a folder."""
        from rlcore.files.digests import sizes

        return sizes(self._folder(key))

    def read(self, key: str, name: str, start: int) -> np.ndarray:
        """Read a block of a file, uint8 `[bytes]`: at most :data:`BLOCK_BYTES` from `start` on."""
        return np.fromfile(self._folder(key) / name, np.uint8, BLOCK_BYTES, offset=start)

    def append(self, key: str, name: str, block: np.ndarray) -> None:
        """Append a block to a file.

        Raises:
            CheckpointError: the file can't be written, e.g. because the disk is full.
        """
        file = self._folder(key) / name
        with _writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab") as opened:
                opened.write(block.data)

    def drop(self, key: str) -> None:
        """Remove a folder."""
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def drop_older(self, key: str) -> None:
        """Remove older folders of the same argument."""
        kind = key.rpartition("-")[0]
        for other in self._folder(key).parent.glob(f"{kind}-*"):
            if other.name != key:
                self.drop(other.name)

    def close(self) -> None:
        """Remove all of them; safe to call twice."""
        base, self._base = self._base, None
        if base is not None:
            shutil.rmtree(base, ignore_errors=True)
            self._lock.close()

    def _folder(self, key: str) -> Path:
        assert self._base is not None  # opened before it is asked for
        return self._base / key


class AskTransfers(Protocol):
    """Send one request to the transfer folders of workers, by rank; return the answers in order."""

    def __call__(self, ranks: Sequence[int], question: str, *arguments: Any) -> list[Any]: ...


@dataclass(frozen=True)
class Away:
    """Workers that can't access the folders of the driver's machine.

    Attributes:
        nodes: node of each such worker, by rank.
        has: places (:func:`absolute`) that are on a node's own disk too, by node; these are not
            sent.
    """

    nodes: Mapping[int, int]
    has: Mapping[int, frozenset[str]]


@contextlib.contextmanager
def at_hand(
    folder: Folder | None, per_rank: Sequence[Mapping[str, Any]], away: Away, ask: AskTransfers
) -> Iterator[list[dict[str, Any]]]:
    """Yield the arguments of a call, by rank, with folders that each worker can access.

    Files to be read are sent before, and files written within this context are fetched afterwards.

    Raises:
        CheckpointError: a disk is full, or a file is not what it was.
    """
    given = [dict(arguments) for arguments in per_rank]
    if folder is None:
        yield given
        return
    (here,) = {arguments[folder.argument] for arguments in given}  # all ranks are told the same
    moved = [
        rank
        for rank, node in away.nodes.items()
        if rank < len(given) and absolute(here) not in away.has[node]
    ]
    if not moved:
        yield given
        return
    first = {away.nodes[rank]: rank for rank in reversed(moved)}  # it keeps what all there read
    keeper = {rank: rank if folder.written else first[away.nodes[rank]] for rank in moved}
    keepers, key = sorted(set(keeper.values())), f"{folder.argument}-{next(_numbers)}"
    places = dict(zip(keepers, ask(keepers, "open", key), strict=True))
    for rank in moved:
        given[rank][folder.argument] = places[keeper[rank]]
    if not folder.written:
        _send(Path(here), folder.files, key, keepers, ask)
    yield given
    if folder.written:
        for rank in keepers:
            _fetch(Path(here), key, rank, ask)
    # of those that are kept, the newest is: what came before has been read or copied
    ask(keepers, "drop_older" if folder.kept else "drop", key)


def _send(source: Path, files: str, key: str, ranks: Sequence[int], ask: AskTransfers) -> None:
    """Send files of a folder on this machine to several transfer folders, block by block."""
    for file in sorted(one for one in source.glob(files) if one.is_file()):
        name = file.relative_to(source).as_posix()
        for start in range(0, max(file.stat().st_size, 1), BLOCK_BYTES):  # an empty one is sent too
            block = np.fromfile(file, np.uint8, BLOCK_BYTES, offset=start)
            ask(ranks, "append", key, name, block)


def _fetch(into: Path, key: str, rank: int, ask: AskTransfers) -> None:
    """Fetch all files of a transfer folder into a folder on this machine, block by block."""
    (sizes,) = ask([rank], "sizes", key)
    for name, size in sizes.items():
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while file.tell() < size:
                (block,) = ask([rank], "read", key, name, file.tell())
                if not len(block):
                    raise CheckpointError(f"{target} is shorter than it was written")
                file.write(block)


def absolute(place: str) -> str:
    """Normalise a path of the configuration."""
    return str(Path(place).expanduser().absolute())


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    from rlcore.run_folder.checkpoint import writing

    with writing(path, hint="TMPDIR, where Ray is started on that node, names another disk"):
        yield


def _sweep() -> None:
    """Remove folders of killed processes, which hold no lock."""
    for base in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (base / LOCK).open() as lock:  # of another user
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(base)
