"""What a process does to a folder: every change is told before it is made, with what there is then.

Python tells its audit hooks of files it opens, renames and removes, before it does so; what C and
Rust code writes by itself (safetensors, parquet) it doesn't. So the folder is looked at anew at
every event, and what was written since the one before is found by comparing. An audit hook can't
be removed: install one only in a process that is going to end. Knows nothing of runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER, LINK = "folder", "link:"
EMPTY = hashlib.sha256(b"").hexdigest()
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FLUSH = "fsync"
SETTLED = 0.1
"""Seconds after which a file that is written again has another time: file systems count them by
ticks of 10 ms or less."""
# Audit events that change something: where their paths stand among the arguments, and the folder
# (a descriptor) each is relative to.
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.truncate": ((0, None),),
    "fcntl.flock": ((0, None),),
    "fcntl.lockf": ((0, None),),
}

Tree = dict[str, str]
"""`{path: "folder", "link:TARGET" or the sha256 of the content}`, paths relative to a folder."""
Tell = Callable[[str, list[str]], None]


def watch(root: Path, tell: Tell, ignored: str) -> None:
    """From now on call `tell(event, names)` before every change that Python code of this process
    makes below `root`, one at a time. Flushes to the disk are told and left out: nobody pulls the
    plug.

    Args:
        root: the folder; names are relative to it.
        tell: may change what it likes, that is no event.
        ignored: a folder that is not told of, wherever it lies: threads write there now and then.
    """
    root = root.resolve()
    lock = threading.Lock()
    teller: int | None = None

    def told(event: str, paths: list[Path]) -> None:
        nonlocal teller
        if teller == threading.get_ident():
            return
        names = [path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)]
        names = [name for name in names if ignored not in Path(name).parts]
        if names:
            with lock:
                teller = threading.get_ident()
                try:
                    tell(event, names)
                finally:
                    teller = None

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and (arguments[2] or 0) & WRITING:
            told(event, [_located(arguments[0], None)])
        elif event in CHANGES:
            told(
                event,
                [
                    _located(arguments[path], None if folder is None else arguments[folder])
                    for path, folder in CHANGES[event]
                ],
            )

    def flush(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        told(FLUSH, [_of_descriptor(number)])

    os.fsync = flush
    sys.addaudithook(hook)


def _located(path: Any, folder: int | None) -> Path:
    """An absolute path, of one relative to a folder, or of an open file."""
    if isinstance(path, int):
        return _of_descriptor(path)
    base = Path.cwd() if folder is None or folder < 0 else _of_descriptor(folder)
    whole = base / os.fsdecode(path)
    return whole.parent.resolve() / whole.name  # a link is changed itself, not what it names


def _of_descriptor(number: int) -> Path:
    try:
        if sys.platform == "darwin":
            name = fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")
            return Path(os.fsdecode(name))
        return Path(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:  # a pipe, or closed
        return Path("/")


class Store:
    """Contents of files by their sha256, each kept once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.put(b"")  # states are made up in which a file is empty

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        file = self.path / digest
        if not file.exists():
            file.write_bytes(content)
        return digest

    def get(self, digest: str) -> bytes:
        return (self.path / digest).read_bytes()

    def rebuild(self, tree: Mapping[str, str], root: Path) -> None:
        """Make `root` what it was."""
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for name, entry in sorted(tree.items()):  # a folder comes before what is in it
            if entry == FOLDER:
                (root / name).mkdir()
            elif entry.startswith(LINK):
                (root / name).symlink_to(entry.removeprefix(LINK))
            else:
                shutil.copyfile(self.path / entry, root / name)


@dataclass(frozen=True)
class State:
    """The folder at one moment.

    Attributes:
        label: what had been done, in words.
        tree: what it held.
    """

    label: str
    tree: Tree

    @staticmethod
    def dump(states: Sequence[State]) -> str:
        """As text, for :meth:`load`."""
        return json.dumps([[state.label, state.tree] for state in states])

    @staticmethod
    def load(text: str) -> list[State]:
        """What :meth:`dump` was given."""
        return [State(label, tree) for label, tree in json.loads(text)]


class Recorder:
    """The states that a folder goes through while this process writes to it.

    After every event one; where a file was written, also with it empty and with half of it, or
    of what was added to it; and after every renaming, as it would be after a power failure that
    takes what was not flushed (folders and names are taken to come to the disk in the order in
    which they are made, as the journals of file systems have it).

    Args:
        root: the folder; it need not be there yet. What is there already counts as flushed.
        store: where contents are kept.
        ignored: as in :func:`watch`; kept, but it makes no state.
    """

    def __init__(self, root: Path, store: Store, ignored: str) -> None:
        self.root, self._store, self._ignored = root, store, ignored
        self.states: list[State] = []
        self._known: set[frozenset[tuple[str, str]]] = set()
        self._read: dict[tuple[int, ...], str] = {}
        self._flushed: dict[int, str] = {}  # by inode
        self._inodes: dict[str, int] = {}
        self._tree = self._look()
        self._flushed |= {inode: self._tree[name] for name, inode in self._inodes.items()}
        self._event = "the start"

    def watch(self) -> None:
        """Begin."""
        watch(self.root, self._before, self._ignored)

    def _before(self, event: str, names: list[str]) -> None:
        """Look at the folder before an event."""
        before, self._tree = self._tree, self._look()
        for label, tree in self._torn(before):
            self._keep(f"after {self._event}, {label}", tree)
        self._keep(f"after {self._event}", self._tree)
        if self._event.startswith("os.rename"):  # what is named now may not be on the disk yet
            self._keep(f"after {self._event}, what was not flushed lost", self._lost())
        self._event = f"{event} {' -> '.join(names)}"
        for name in names:
            inode = self._inodes.get(name)
            if event == FLUSH and inode is not None:
                self._flushed[inode] = self._tree[name]
            elif event == "os.remove" and [*self._inodes.values()].count(inode) == 1:
                self._flushed.pop(inode, None)  # its number may be given to another file

    def end(self) -> None:
        """Look at it a last time."""
        self._before("the end", [])

    def _keep(self, label: str, tree: Tree) -> None:
        seen = frozenset(item for item in tree.items() if self._counts(item[0]))
        if seen not in self._known:
            self._known.add(seen)
            self.states.append(State(label, dict(tree)))

    def _counts(self, name: str) -> bool:
        return self._ignored not in Path(name).parts

    def _look(self) -> Tree:
        tree: Tree = {}
        self._inodes = {}
        if self.root.is_dir():
            self._enter(self.root, "", tree)
        return tree

    def _enter(self, folder: Path, prefix: str, tree: Tree) -> None:
        for entry in os.scandir(folder):
            name = prefix + entry.name
            if entry.is_symlink():
                tree[name] = LINK + os.readlink(entry.path)
            elif entry.is_dir():
                tree[name] = FOLDER
                self._enter(Path(entry.path), f"{name}/", tree)
            else:
                about = entry.stat()
                key = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                digest = self._read.get(key) or self._store.put(Path(entry.path).read_bytes())
                if time.time() - about.st_ctime > SETTLED:
                    self._read[key] = digest
                tree[name] = digest
                self._inodes[name] = about.st_ino

    def _torn(self, before: Tree) -> Iterator[tuple[str, Tree]]:
        """States between the one before and the present: each file that was written, empty and by
        half. What was there under another name was renamed, not written."""
        moved = {entry for name, entry in before.items() if name not in self._tree}
        written = [
            name
            for name, entry in self._tree.items()
            if name in self._inodes and entry not in moved and entry != EMPTY and self._counts(name)
        ]
        written.sort(key=lambda name: (self.root / name).stat().st_mtime_ns)
        tree = {name: entry for name, entry in self._tree.items() if name not in written}
        tree |= {name: before[name] for name in written if name in before}
        for name in written:
            there = tree.get(name)
            old = self._store.get(there) if there not in (None, FOLDER) else b""
            new = self._store.get(self._tree[name])
            if old.startswith(new):
                continue  # cut at once
            if not new.startswith(old):
                # cut at once and then appended to keeps its beginning; else it was written anew
                cut = self._event.startswith("os.truncate") and name in self._event.split()
                old = os.path.commonprefix([old, new]) if cut else b""  # noqa: RUF071 (contents)
            if not old:
                yield f"{name} empty", {**tree, name: EMPTY}
            elif tree.get(name) != (cut_to := self._store.put(old)):
                yield f"{name} cut", {**tree, name: cut_to}
            half = self._store.put(new[: (len(old) + len(new)) // 2])
            yield f"{name} written by half", {**tree, name: half}
            tree[name] = self._tree[name]

    def _lost(self) -> Tree:
        """What a power failure would leave of the present state."""
        return {
            name: self._flushed.get(self._inodes[name], EMPTY)
            if name in self._inodes and self._counts(name)
            else entry
            for name, entry in self._tree.items()
        }
