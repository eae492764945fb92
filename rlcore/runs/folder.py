"""Create and find the folder of a run, and name its files.

A new run never uses the folder of an earlier one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rlcore.contracts.errors import CheckpointError, ConfigError, nearest_choice
from rlcore.files import lock
from rlcore.files.atomic import sweep, write_text
from rlcore.files.symlinks import require_self_contained
from rlcore.runs.history import BEST, LATEST, checkpoint_name, settle
from rlcore.utils.text import abbreviate_list

CONFIG = "config.yaml"
RECIPE = "recipe.yaml"
METRICS = "metrics.jsonl"
SUPERVISED_POLICY = "policy"
"""Folder of the policy in a folder of `sft_rounds` or `sft_steps`."""
WRITTEN_BY_READERS = ("replay", "report.html")
"""Names that commands write into a run's folder without its lock, perhaps at the same time.

:meth:`RunFolder.locked` spares their temporary files as long as the writer may be alive.
"""

PLACE = "give the folder that holds config.yaml and checkpoints/, such as logs/quickstart"
SHOWN = 3  # number of runs that a hint names
SWEEP_TABLE = "sweep.txt"
"""File with the results of a sweep's jobs, in the folder that holds their run folders."""


class FolderPath:
    """Descriptor that returns the path of a file or folder inside a :class:`RunFolder`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, kind: type[RunFolder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, `<log_path>/<experiment_name>/`.

    :meth:`create` makes a new one; :meth:`open` and :meth:`containing` find an existing one.

    Attributes:
        path: absolute path of the folder.
    """

    path: Path

    config = FolderPath(CONFIG)
    manifest = FolderPath("manifest.json")
    metrics = FolderPath(METRICS)
    summary = FolderPath("summary.json")
    trace = FolderPath("trace.json")
    recipe = FolderPath(RECIPE)
    report = FolderPath("report.html")
    tensorboard = FolderPath("tensorboard")
    sft = FolderPath("sft")  # the policy after supervised training
    sft_rounds = FolderPath("sft_rounds")  # while supervised training goes to its plateau
    sft_steps = FolderPath("sft_steps")  # states of supervised training in progress
    checkpoints = FolderPath("checkpoints")
    workers = FolderPath("workers")  # what libraries print and log in workers
    evaluations = FolderPath("eval")
    # written once, and read by each resumed attempt
    before = FolderPath("eval/before.parquet")
    sampling = FolderPath("eval/sampling/before.parquet")
    forgetting = FolderPath("eval/forgetting/before.parquet")
    demonstrations = FolderPath("demonstrations")

    @classmethod
    def create(cls, log_path: str | Path, experiment_name: str) -> RunFolder:
        """Create a new folder; `-2`, `-3`, ... is appended to a name that exists.

        Runs that start at the same moment get different folders, because creating one is atomic.

        Args:
            log_path: the parent folder; it is created if necessary.
            experiment_name: a name that :mod:`rlcore.checks.places` allows: it stays below
                `log_path`.

        Raises:
            ConfigError: the folder can't be created.
        """
        parent = Path(log_path).expanduser().absolute()
        try:
            return cls(_make_new(parent / experiment_name))
        except OSError as error:
            raise ConfigError(
                f"can't make a folder for the run in {parent}: {error.strerror or error}",
                hint="set runner.logger.log_path to a folder you may write to",
            ) from error

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open the folder of an earlier run.

        Raises:
            CheckpointError: the folder does not exist, or is not the folder of a run.
        """
        folder = cls(_existing(path))
        if not folder.path.is_dir():
            raise CheckpointError(
                f"there is no run at {folder.path}: it is not a folder", hint=PLACE
            )
        if not folder.config.is_file():
            raise CheckpointError(
                f"{folder.path} is not the folder of a run: it has no {folder.config.name}",
                hint=_runs_below(folder.path),
            )
        return folder

    @classmethod
    def containing(cls, path: str | Path) -> RunFolder:
        """Open the run whose folder is `path` or contains it.

        Raises:
            CheckpointError: `path` does not exist, or is not inside a run.
        """
        inside = _existing(path)
        for folder in (inside, *inside.parents):
            if cls(folder).config.is_file():
                return cls(folder)
        raise CheckpointError(
            f"{inside} is not in a run: no config.yaml in it or above it",
            hint=_runs_below(inside),
        )

    def write_config(self, text: str) -> None:
        """Write the resolved configuration, as YAML, to `config.yaml`."""
        write_text(self.config, text)

    @contextlib.contextmanager
    def locked(self, required: bool = True) -> Iterator[str | None]:
        """Hold the run's lock, so that no other process writes to it.

        First removes temporary files that a killed process left behind, and finishes its changes to
        the checkpoints. Yields a message for the user if a dead process held the lock, else None.

        Args:
            required: see :func:`rlcore.files.lock.locked`.

        Raises:
            CheckpointError: another process writes to the run, its folder is not writable, a link
                in it points outside, or a folder is in place of a file.
        """
        require_self_contained(self.path)
        self._require_files()
        with lock.locked(self.path, required=required) as before:
            sweep(self.path, spare=WRITTEN_BY_READERS)
            settle(self.checkpoints)
            yield before

    def require_lock(self) -> None:
        """Check that this process still holds the run: :func:`rlcore.files.lock.require_lock`.

        Call it before writing results, as the folder may have been moved or replaced meanwhile.
        """
        lock.require_lock(self.path)

    def _require_files(self) -> None:
        """Raise CheckpointError if a folder is where the run writes a file.

        A run thus fails before it starts, not when it writes its results.
        """
        files = [self.manifest, self.metrics, self.summary, self.report]
        files += [self.checkpoints / LATEST, self.checkpoints / BEST]
        files += self.evaluations.glob("*.parquet")
        for path in files:
            if path.exists() and not path.is_file():
                raise CheckpointError(
                    f"{path} is not a file, but the run must write one there",
                    hint="move it elsewhere, then do this again",
                )

    @property
    def name(self) -> str:
        return self.path.name

    def checkpoint(self, step: int) -> Path:
        """Return the path of the checkpoint after `step` updates."""
        return self.checkpoints / checkpoint_name(step)

    def video(self, side: str) -> Path:
        """Return the folder with the videos of `side`, "train" or "eval"."""
        return self.path / "video" / side


def runs_in(folder: str | Path) -> list[Path]:
    """Return the run folders in a sweep's folder, sorted; empty if it is not a sweep's folder."""
    try:
        is_sweep = (Path(folder) / SWEEP_TABLE).is_file() and str(folder) != ""
    except (OSError, ValueError):  # too long for a path
        return []
    return _runs(Path(folder)) if is_sweep else []


def _runs(folder: Path) -> list[Path]:
    """Return the run folders directly below a folder, sorted."""
    try:
        return sorted(path.parent for path in folder.glob("*/config.yaml"))
    except OSError:
        return []


def _existing(path: str | Path) -> Path:
    """Return the absolute path of an existing file or folder.

    Raises:
        CheckpointError: `path` does not exist, or is not a valid path.
    """
    if not str(path).strip():
        raise CheckpointError(f"a run must be named by its folder, got {str(path)!r}", hint=PLACE)
    try:
        inside = Path(path).expanduser().absolute()
        if inside.exists():
            return inside
    except (OSError, RuntimeError, ValueError) as error:  # too long, a NUL, an unknown ~USER
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(
            f"there is no run at {str(path)[:200]}: {reason}", hint=PLACE
        ) from None
    runs = {run.name: run for run in (*_runs(inside.parent), *_runs(Path("logs").absolute()))}
    name = nearest_choice(inside.name, runs)
    hint = PLACE if name is None else f"did you mean {runs[name]}?"
    raise CheckpointError(f"there is no run at {inside}", hint=hint)


def _runs_below(folder: Path) -> str:
    """Return a hint that names the runs directly below a folder, or how to name a run."""
    runs = _runs(folder) if folder.is_dir() else []
    return f"the runs in it: {abbreviate_list([*map(str, runs)], SHOWN)}" if runs else PLACE


def _make_new(preferred: Path) -> Path:
    """Create the first folder of `preferred`, `preferred-2`, ... that does not exist."""
    preferred.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = preferred if number == 1 else preferred.with_name(f"{preferred.name}-{number}")
        try:
            path.mkdir()  # atomic: if two runs start at once, one of them gets FileExistsError
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")
