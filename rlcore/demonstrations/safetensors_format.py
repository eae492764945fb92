"""The safetensors format: write demonstrations as they are collected, and read them on access.

:mod:`rlcore.demonstrations.layout` defines the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
from rlcore.demonstrations.datasets import DatasetSummary, DatasetWriter
from rlcore.demonstrations.layout import (
    DATA,
    EPISODE_FILE,
    EPISODES,
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
from rlcore.demonstrations.records import (
    INFO,
    DataInfo,
    EpisodeRow,
    check_empty,
    check_same_env,
    check_same_settings,
    entries,
    no_demonstrations,
    require_new,
)
from rlcore.demonstrations.split import Demonstrations, split_rows
from rlcore.files.atomic import sweep
from rlcore.runs.env_facts import EnvFacts


class DemonstrationWriter(DatasetWriter):
    """Adds episodes to a data set. An episode is on disk when :meth:`add` returns.

    If the folder holds a data set of the same env and settings, the writer continues it, and
    :meth:`episodes` returns the episodes already there.

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
        self._info = DataInfo.of_collection(spec, collect, seed, interpreters)
        self._rows: list[EpisodeRow] = []
        if is_collection(self.path):
            check_same_settings(self.path, read_info(self.path), self._info)
            self._rows = rows_of_files(self.path)
            # the table is outdated once an episode is added
            (self.path / EPISODES).unlink(missing_ok=True)
        else:
            check_empty(self.path)
            sweep(self.path)
            write_info(self.path, self._info)
        self._next = 1 + max((number_of(row) for row in self._rows), default=-1)

    def episodes(self) -> set[Episode]:
        """Return the addresses of the episodes on disk, without their group."""
        return {row.episode for row in self._rows}

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode, which the env worker has already checked.

        Raises:
            ValueError: the data set already has this episode.
        """
        require_new(demonstration.episode, self.episodes(), self.path)
        file = f"{DATA}/{EPISODE_FILE.format(self._next)}"
        row = EpisodeRow.of(demonstration, self._info.tasks, file)
        write_episode(self.path, row, demonstration)
        self._rows.append(row)
        self._next += 1

    def close(self) -> None:
        """Write `episodes.parquet`, which marks the collection as complete."""
        write_table(self.path, self._rows)


class DemonstrationSet(Demonstrations[EpisodeRow]):
    """The episodes of a data set in canonical order (task, trial, replica).

    Args:
        path: the folder.

    Raises:
        CheckpointError: `path` holds no data set, or its description or table is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.info = read_info(self.path)
        rows = sorted(read_table(self.path), key=lambda row: row.episode)
        super().__init__(rows, self.read)

    @property
    def complete(self) -> bool:
        """Return whether the collection is complete, not interrupted: whether it has a table."""
        return (self.path / EPISODES).exists()

    @property
    def facts(self) -> EnvFacts:
        """Return the facts of the env that demonstrates."""
        return self.info

    def starts(self, *, successful: bool = False) -> set[tuple[str, int]]:
        """Return (task name, trial) of the episodes."""
        return {(row.task, row.trial) for row in self.items if row.success or not successful}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError if no episode succeeded, or if the env's facts differ from `spec`."""
        if not any(row.success for row in self.items):
            raise no_demonstrations(self.path)
        check_same_env(self.info, spec, self.path)

    def check_files(self) -> None:
        """Raise CheckpointError if an episode's file is missing or its header does not fit."""
        for row in self.items:
            check_episode(self.path, row, self.info)

    def summary(self) -> DatasetSummary:
        """See :meth:`rlcore.demonstrations.datasets.Dataset.summary`."""
        used = [row for row in self.items if row.success]
        stride = self.info.collect["stride"]
        frames = sum(len(range(0, row.length, stride)) for row in used)
        return DatasetSummary(len(used), len(self), frames=frames)

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Demonstrations[EpisodeRow], Demonstrations[EpisodeRow]]:
        """Return the (training, validation) demonstrations; see :func:`split_rows`."""
        train, val = split_rows(self.items, val_fraction, seed, self.path)
        return Demonstrations(train, self.read), Demonstrations(val, self.read)

    def read(self, row: EpisodeRow) -> Demonstration:
        """Read an episode. Raises CheckpointError if its file is missing or damaged."""
        return read_episode(self.path, row, self.info)


def is_collection(path: Path) -> bool:
    """Return whether a folder holds a collection, complete or interrupted.

    A damaged description without any other file does not count: it is of a collection that was
    killed while it wrote its first file.
    """
    if not (path / INFO).is_file():
        return False
    try:
        read_info(path)
    except CheckpointError:
        return bool(entries(path) - {INFO})
    return True


class SafetensorsFormat:
    """The safetensors format; see :class:`rlcore.demonstrations.datasets.DatasetFormat`."""

    holds = staticmethod(is_collection)
    read = staticmethod(DemonstrationSet)
    write = staticmethod(DemonstrationWriter)

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check the data set in a folder, or that one can be begun there. Reads only headers.

        For the arguments and errors see
        :meth:`rlcore.demonstrations.datasets.DatasetFormat.check_folder`.
        """
        if not is_collection(path):
            return check_empty(path)
        data = DemonstrationSet(path)
        if data.complete:
            data.check(spec)
        else:
            check_same_settings(path, data.info, DataInfo.of_collection(spec, collect, seed))
        data.check_files()
