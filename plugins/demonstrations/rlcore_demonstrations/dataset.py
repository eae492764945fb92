"""Write demonstrations to disk as they are collected, and read them one at a time.

Knows nothing of policies; :mod:`rlcore_demonstrations.layout` defines the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
from rlcore.demonstrations.datasets import DatasetSummary
from rlcore.files.atomic import is_partial, sweep
from rlcore.run_folder.env_facts import EnvFacts
from rlcore_demonstrations.layout import (
    DATA,
    EPISODE_FILE,
    EPISODES,
    INFO,
    DataInfo,
    EpisodeRow,
    check_episode,
    number_of,
    read_episode,
    read_info,
    read_table,
    rows_of_files,
    write_episode,
    write_info,
    write_table,
)


class DemonstrationWriter:
    """Adds episodes to a data set. An episode is on disk when :meth:`add` returns.

    If the folder holds a data set of the same env and settings, the writer continues it, and
    :meth:`episodes` returns the episodes already there. :meth:`close` writes the table.

    Args:
        path: the folder, new or with a data set to continue.
        spec: spec of the env that demonstrates.
        collect: settings of the collection.
        seed: root seed of the collection.
        interpreters: other Python interpreters that run the env's simulators.

    Raises:
        ConfigError: the folder holds a data set made with other settings, or other files.
    """

    def __init__(
        self,
        path: str | Path,
        spec: EnvSpec,
        collect: CollectConfig,
        *,
        seed: int,
        interpreters: Iterable[OtherInterpreter] = (),
    ) -> None:
        self.path = Path(path)
        self._info = info = DataInfo.of_collection(spec, collect, seed, interpreters)
        self._rows: list[EpisodeRow] = []
        if begun(self.path):
            check_same(self.path, read_info(self.path), info)
            self._rows = rows_of_files(self.path)
            # the table is outdated once an episode is added
            (self.path / EPISODES).unlink(missing_ok=True)
        else:
            check_empty(self.path)
            sweep(self.path)
            write_info(self.path, info)
        self._next = 1 + max((number_of(row) for row in self._rows), default=-1)

    def episodes(self) -> set[Episode]:
        """Return the addresses of the episodes on disk, without their group."""
        return {row.episode for row in self._rows}

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode, which the env worker has already checked.

        Raises:
            ValueError: the data set already has this episode.
        """
        address = demonstration.episode._replace(group=-1)
        if address in self.episodes():
            raise ValueError(f"{address} is already in {self.path}")
        row = EpisodeRow(
            task_index=address.task,
            trial=address.trial,
            replica=address.replica,
            task=self._info.tasks[address.task],
            task_description=demonstration.instruction,
            success=bool(demonstration.success),
            length=len(demonstration.actions),
            file=f"{DATA}/{EPISODE_FILE.format(self._next)}",
        )
        write_episode(self.path, row, demonstration)
        self._rows.append(row)
        self._next += 1

    def close(self) -> None:
        """Write `episodes.parquet`, which marks the collection as complete."""
        write_table(self.path, self._rows)

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()


class DemonstrationSet(Sequence[Demonstration]):
    """The episodes of a data set in canonical order (task, trial, replica), read from disk on
    access.

    Args:
        path: the folder.
        rows: the episodes to include; None: all of them.

    Raises:
        CheckpointError: `path` holds no data set, or its description or table is damaged.
    """

    def __init__(self, path: str | Path, rows: Sequence[EpisodeRow] | None = None) -> None:
        self.path = Path(path)
        self.info = read_info(self.path)
        chosen = read_table(self.path) if rows is None else rows
        self.rows = tuple(sorted(chosen, key=lambda row: row.episode))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Return a :class:`Demonstration` for an int, a smaller set for a slice."""
        if isinstance(index, slice):
            return self._subset(self.rows[index])
        return read_episode(self.path, self.rows[index], self.info)

    def __iter__(self) -> Iterator[Demonstration]:
        return (read_episode(self.path, row, self.info) for row in self.rows)

    @property
    def complete(self) -> bool:
        """Return whether the collection is complete, not interrupted: whether it has a table."""
        return (self.path / EPISODES).exists()

    @property
    def facts(self) -> EnvFacts:
        """Return the facts of the env that demonstrates."""
        return self.info

    def starts(self) -> set[tuple[str, int]]:
        """Return (task name, trial) of the episodes."""
        return {(row.task, row.trial) for row in self.rows}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError if no episode succeeded, or if the env's facts differ from `spec`."""
        if not any(row.success for row in self.rows):
            raise ConfigError(
                f"no demonstrations are left to learn from in {self.path}",
                hint="collect more: rlcore collect",
            )
        self.info.check_fits(spec, self.path)

    def check_files(self) -> None:
        """Raise CheckpointError if an episode's file is missing or its header does not fit."""
        for row in self.rows:
            check_episode(self.path, row, self.info)

    def summary(self) -> DatasetSummary:
        """See :meth:`rlcore.demonstrations.datasets.Dataset.summary`."""
        return DatasetSummary(sum(row.success for row in self.rows), len(self))

    def split(self, val_fraction: float, seed: int) -> tuple[DemonstrationSet, DemonstrationSet]:
        """Return (training, validation) sets of the successful episodes; see :func:`split_rows`."""
        train, val = split_rows(self.rows, val_fraction, seed, self.path)
        return self._subset(train), self._subset(val)

    def _subset(self, rows: Sequence[EpisodeRow]) -> DemonstrationSet:
        return DemonstrationSet(self.path, rows)


def split_rows(
    rows: Iterable[EpisodeRow], val_fraction: float, seed: int, path: Path
) -> tuple[list[EpisodeRow], list[EpisodeRow]]:
    """Split the successful episodes into (training, validation), stratified by task.

    The share `val_fraction` of all successful episodes is for validation, at least one; 0: none.
    Each task keeps at least one training episode. The numbers of the tasks are rounded by largest
    remainder. The random order of a task's episodes depends on (seed, task) alone.

    Args:
        rows: episodes of the data set; failed ones are dropped.
        val_fraction: share for validation.
        seed: root seed of the split.
        path: folder of the data set, for error messages.

    Raises:
        ConfigError: `val_fraction` is not 0, and no task has two successful episodes.
    """
    usable = [row for row in rows if row.success]
    if val_fraction == 0.0:
        return usable, []
    by_task: dict[str, list[EpisodeRow]] = {
        task: [] for task in sorted({row.task for row in usable})
    }
    for row in usable:
        by_task[row.task].append(row)
    counts = _shares({task: len(rows) for task, rows in by_task.items()}, val_fraction)
    if not sum(counts.values()):
        raise ConfigError(
            f"{len(usable)} demonstrations of {len(by_task)} tasks in {path} leave none "
            "to validate on: at least one task needs two",
            hint="set sft.val_fraction=0, or raise collect.episodes_per_task",
        )
    held: set[EpisodeRow] = set()
    for task, rows_of_task in by_task.items():
        order = generator(seed, "validation split", task).permutation(len(rows_of_task))
        held.update(rows_of_task[i] for i in order[: counts[task]])
    return [row for row in usable if row not in held], [row for row in usable if row in held]


def _shares(sizes: dict[str, int], fraction: float) -> dict[str, int]:
    """Return the validation episodes of each task: together round(fraction * total), at least 1,
    rounded by largest remainder; each task keeps one for training."""
    total = max(1, round(fraction * sum(sizes.values())))
    shares = {task: min(int(fraction * size), size - 1) for task, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda task: (shares[task] - fraction * sizes[task], task))
    for task in by_remainder:
        if sum(shares.values()) < total and shares[task] < sizes[task] - 1:
            shares[task] += 1
    return shares


def begun(path: Path) -> bool:
    """Return whether a folder holds a collection, complete or interrupted.

    A damaged description without any other file does not count: it is of a collection that was
    killed while it wrote its first file.
    """
    if not (path / INFO).is_file():
        return False
    try:
        read_info(path)
    except CheckpointError:
        return bool(_others(path) - {INFO})
    return True


def _others(path: Path) -> set[str]:
    """List the entries of a folder, without partial files and folders of nothing else.

    A killed collection leaves partial files behind, to which no other file refers.
    """
    return {
        entry.name
        for entry in path.iterdir()
        if not is_partial(entry.name)
        and (entry.is_symlink() or not entry.is_dir() or _others(entry))
    }


def check_empty(path: Path) -> None:
    """Raise ConfigError if `path` is a file, or a folder with files that no collection wrote."""
    if path.is_file():
        raise ConfigError(
            f"{path} is a file that describes no demonstrations",
            hint="set collect.output to a folder",
        )
    if path.is_dir() and _others(path) - {INFO}:
        raise ConfigError(
            f"{path} holds files that are not demonstrations",
            hint="set collect.output to a new folder",
        )


def check_same(path: Path, there: DataInfo, wanted: DataInfo) -> None:
    """Raise ConfigError if a continued collection has other settings; only versions may differ."""
    mine, others = asdict(wanted), asdict(there)
    del mine["versions"]
    # sentences come last, because they differ whenever the tasks do
    for key in sorted(mine, key="sentences".__eq__):
        if mine[key] != others[key]:
            raise ConfigError(
                f"{path} holds demonstrations with {key} {others[key]}, now asked for {mine[key]}",
                hint="set collect.output to a new folder",
            )


class SafetensorsFormat:
    """The safetensors format; see :class:`rlcore.demonstrations.datasets.DatasetFormat`."""

    holds = staticmethod(begun)
    read = staticmethod(DemonstrationSet)
    write = staticmethod(DemonstrationWriter)

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a run can learn from the data set in a folder, continue an interrupted
        collection there, or begin one. Reads only headers.

        Raises:
            ConfigError: the data is of another env, the interrupted collection has other settings,
                or the folder holds other files.
            CheckpointError: the data set is damaged.
        """
        if not begun(path):
            return check_empty(path)
        data = DemonstrationSet(path)
        if data.complete:
            data.check(spec)
        else:
            check_same(path, data.info, DataInfo.of_collection(spec, collect, seed))
        data.check_files()
