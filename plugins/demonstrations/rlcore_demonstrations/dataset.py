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
    """Adds episodes to a data set. Each is on the disk when :meth:`add` returns.

    Opened on a folder that holds a data set of the same env and settings, it goes on with it:
    `episodes` are those already there. :meth:`close` writes the table.

    Args:
        path: the folder, new or to go on with.
        spec: of the env that demonstrates.
        collect: its settings.
        seed: root seed of the collection.
        interpreters: other ones, in which its simulators run.

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
            (self.path / EPISODES).unlink(missing_ok=True)  # stale from here on
        else:
            check_empty(self.path)
            sweep(self.path)
            write_info(self.path, info)
        self._next = 1 + max((number_of(row) for row in self._rows), default=-1)

    def episodes(self) -> set[Episode]:
        """Addresses already written, group left out."""
        return {row.episode for row in self._rows}

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode, which the env worker has checked.

        Raises:
            ValueError: the episode is already there.
        """
        address = demonstration.episode._replace(group=-1)
        if address in self.episodes():
            raise ValueError(f"{address} is already in {self.path}")
        row = EpisodeRow(
            task_index=address.task,
            trial=address.trial,
            replica=address.replica,
            task=self._info.tasks[address.task],
            task_description=demonstration.task_description,
            success=bool(demonstration.success),
            length=len(demonstration.actions),
            file=f"{DATA}/{EPISODE_FILE.format(self._next)}",
        )
        write_episode(self.path, row, demonstration)
        self._rows.append(row)
        self._next += 1

    def close(self) -> None:
        """Write `episodes.parquet`: the collection is complete."""
        write_table(self.path, self._rows)

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()


class DemonstrationSet(Sequence[Demonstration]):
    """The episodes of a data set in canonical order (task, trial, replica), read when asked for.

    Args:
        path: the folder.
        rows: only these episodes; all if None.

    Raises:
        CheckpointError: no data set at `path`, or a damaged one.
    """

    def __init__(self, path: str | Path, rows: Sequence[EpisodeRow] | None = None) -> None:
        self.path = Path(path)
        self.info = read_info(self.path)
        chosen = read_table(self.path) if rows is None else rows
        self.rows = tuple(sorted(chosen, key=lambda row: row.episode))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """An int gives a :class:`Demonstration`, a slice a smaller set."""
        if isinstance(index, slice):
            return self._subset(self.rows[index])
        return read_episode(self.path, self.rows[index], self.info)

    def __iter__(self) -> Iterator[Demonstration]:
        return (read_episode(self.path, row, self.info) for row in self.rows)

    @property
    def complete(self) -> bool:
        """Whether the collection came to its end; if not, these are the episodes it got to."""
        return (self.path / EPISODES).exists()

    @property
    def facts(self) -> EnvFacts:
        """Of the env that demonstrates."""
        return self.info

    def starts(self) -> set[tuple[str, int]]:
        """(task by name, trial) of the episodes."""
        return {(row.task, row.trial) for row in self.rows}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from these episodes."""
        if not any(row.success for row in self.rows):
            raise ConfigError(
                f"no demonstrations are left to learn from in {self.path}",
                hint="collect more: rlcore collect",
            )
        self.info.check_fits(spec, self.path)

    def check_files(self) -> None:
        """Raise CheckpointError unless all episodes are there, as far as their headers tell."""
        for row in self.rows:
            check_episode(self.path, row, self.info)

    def summary(self) -> DatasetSummary:
        """See :meth:`rlcore.demonstrations.datasets.Dataset.summary`."""
        return DatasetSummary(sum(row.success for row in self.rows), len(self))

    def split(self, val_fraction: float, seed: int) -> tuple[DemonstrationSet, DemonstrationSet]:
        """(training, validation) of the episodes that succeeded, whole and stratified by task.

        See :func:`split_rows`.
        """
        train, val = split_rows(self.rows, val_fraction, seed, self.path)
        return self._subset(train), self._subset(val)

    def _subset(self, rows: Sequence[EpisodeRow]) -> DemonstrationSet:
        return DemonstrationSet(self.path, rows)


def split_rows(
    rows: Iterable[EpisodeRow], val_fraction: float, seed: int, path: Path
) -> tuple[list[EpisodeRow], list[EpisodeRow]]:
    """(training, validation) of the episodes in `path` that succeeded, stratified by task.

    Which episodes of a task are held back depends on (seed, task) alone. Of all episodes
    `val_fraction` is held back, but at least one, and of every task at least one is left to
    train on; what doesn't divide goes to the tasks with the largest remainder. 0: none is.

    Raises:
        ConfigError: no task has two episodes.
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
    """Episodes held back per task: round(fraction * total) by largest remainder, at least one."""
    total = max(1, round(fraction * sum(sizes.values())))
    shares = {task: min(int(fraction * size), size - 1) for task, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda task: (shares[task] - fraction * sizes[task], task))
    for task in by_remainder:
        if sum(shares.values()) < total and shares[task] < sizes[task] - 1:
            shares[task] += 1
    return shares


def begun(path: Path) -> bool:
    """Whether a folder holds a collection. A description that can't be read, with not one episode,
    is of one that was killed at its very first file."""
    if not (path / INFO).is_file():
        return False
    try:
        read_info(path)
    except CheckpointError:
        return bool(_others(path) - {INFO})
    return True


def _others(path: Path) -> set[str]:
    """List what is in a folder, without files that a killed collection never finished, as nothing
    refers to these, and without folders that hold no others."""
    return {
        entry.name
        for entry in path.iterdir()
        if not is_partial(entry.name)
        and (entry.is_symlink() or not entry.is_dir() or _others(entry))
    }


def check_empty(path: Path) -> None:
    """Raise ConfigError for a folder with files that no collection wrote, and for a file."""
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
    """Require that a continued collection has equal settings; only versions may differ."""
    mine, others = asdict(wanted), asdict(there)
    del mine["versions"]
    for key in sorted(mine, key="sentences".__eq__):  # last: they differ with the tasks
        if mine[key] != others[key]:
            raise ConfigError(
                f"{path} holds demonstrations with {key} {others[key]}, now asked for {mine[key]}",
                hint="set collect.output to a new folder",
            )


class SafetensorsFormat:
    """See :class:`rlcore.demonstrations.DatasetFormat`."""

    holds = staticmethod(begun)
    read = staticmethod(DemonstrationSet)
    write = staticmethod(DemonstrationWriter)

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a run can learn from the data in a folder, or write its demonstrations there:
        continue an interrupted collection, or begin one. Reads headers only."""
        if not begun(path):
            return check_empty(path)
        data = DemonstrationSet(path)
        if data.complete:
            data.check(spec)
        else:
            check_same(path, data.info, DataInfo.of_collection(spec, collect, seed))
        data.check_files()
