"""Declare what a format of data sets implements (a component of kind `dataset`), and find formats.

The format of an existing data set is found from its files; a new data set is written in the format
`collect.format`. A data set that is to be read must exist, so that a mistyped path is an error and
not a new data set. This module imports no tensor library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rlcore.contracts.errors import ConfigError, nearest_choice
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rlcore.config.schema import CollectConfig
    from rlcore.contracts.protocols import Demonstration
    from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
    from rlcore.runs.env_facts import EnvFacts

MAKE_ONE = (
    "rlcore collect env=ENV collect.output={path} makes one where the env has an expert; "
    "collect.path=null collects into the run"
)
MAX_SEARCHED_ENTRIES = 50  # number of folder entries that are searched for data sets to suggest

OnProgress = Callable[[Mapping[str, float]], None]
"""Called after each step with `{"steps", "seconds", "train_loss", "val_loss"}`.

These are the steps done and the seconds spent so far, and the latest losses. `val_loss` is absent
if no demonstrations are held back for validation.
"""


@dataclass(frozen=True)
class SupervisedSamples:
    """M samples for supervised training, each with H actions of A entries.

    Attributes:
        inputs: `{name: [M, ...]}`, as a policy's `sft_batch` prepared them.
        actions: float32 `[M, H, A]`, target actions in the env's units.
        mask: bool `[M, H]`, false past the end of the demonstration.
        weights: float64 `[M]`, relative sampling weights; None for uniform sampling.
        demonstration: int64 `[M]`, number of each sample's demonstration, ascending; None if the
            samples are not frames of demonstrations.
        steps_left: int64 `[M]`, env steps from each sample to the end of its demonstration, at
            least 1 and descending within a demonstration; None likewise.
    """

    inputs: dict[str, Tensor]
    actions: Tensor
    mask: Tensor
    weights: np.ndarray | None = None
    demonstration: Tensor | None = None
    steps_left: Tensor | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[tuple[dict[str, Tensor], Tensor, Tensor]]:
        """Yield (inputs, actions, mask) of each batch.

        Args:
            rows: the sample indices of each batch.
        """
        for indices in rows:
            inputs = {name: array[indices] for name, array in self.inputs.items()}
            yield inputs, self.actions[indices], self.mask[indices]


@dataclass(frozen=True)
class DatasetSummary:
    """The number of demonstrations that a data set provides.

    Attributes:
        demonstrations: number of demonstrations used for training or validation.
        episodes: number of all episodes, including those that did not succeed.
        warnings: sentences about the data that the user must know, e.g. that actions are clipped.
        frames: number of frames of these demonstrations, each a sample for training, for the memory
            estimate; 0: unknown.
    """

    demonstrations: int
    episodes: int
    warnings: tuple[str, ...] = ()
    frames: int = 0


class Dataset(Protocol):
    """An existing data set that is read.

    Attributes:
        facts: facts of the env in which the demonstrations were made.
        complete: whether its collection was completed.
    """

    facts: EnvFacts

    @property
    def complete(self) -> bool: ...

    def __len__(self) -> int:
        """Return the number of episodes."""

    def starts(self, *, successful: bool = False) -> set[tuple[str, int]]:
        """Return (task name, trial) of each start from which an episode was recorded.

        Args:
            successful: whether to leave out the episodes that did not succeed.
        """

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from these episodes."""

    def summary(self) -> DatasetSummary:
        """Count the episodes and the demonstrations that are used.

        Raises:
            CheckpointError: the rows contradict each other or the data set's description.
            ConfigError: no episode can be used for training.
        """

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Sequence[Demonstration], Sequence[Demonstration]]:
        """Split the successful demonstrations into (training, validation).

        Whole episodes are held back for validation, and each is read when it is accessed. The
        choice is seeded by (seed, task) alone.

        Args:
            val_fraction: fraction of the demonstrations to hold back for validation.
            seed: root seed of the choice.

        Raises:
            ConfigError: there are too few demonstrations to hold any back.
        """


class DatasetWriter(Protocol):
    """A data set to which collected demonstrations are written.

    It is a context manager that completes the data set, unless an exception leaves the context.
    """

    def episodes(self) -> set[Episode]:
        """Return the addresses of the episodes already written, without their group."""

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode. It is stored on the disk when this method returns."""

    def close(self) -> None:
        """Mark the collection as complete."""

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()


class DatasetFormat(Protocol):
    """A format of data sets on the disk. The class is constructed without arguments.

    A format that subclasses this class and does not override :meth:`write` is read-only.
    """

    def holds(self, path: Path) -> bool:
        """Return whether a folder holds a data set of this format, complete or incomplete."""

    def read(self, path: Path) -> Dataset:
        """Open a data set; episodes are read when they are accessed.

        Raises:
            CheckpointError: there is no data set at `path`, or it is damaged.
        """

    def write(
        self,
        path: Path,
        spec: EnvSpec,
        collect: CollectConfig,
        *,
        seed: int,
        interpreters: Iterable[OtherInterpreter] = (),
    ) -> DatasetWriter:
        """Begin a data set, or continue an incomplete one; leaving the context completes it.

        Args:
            path: the folder of the data set.
            spec: the spec of the env in which demonstrations are made.
            collect: the settings of the collection.
            seed: root seed of the collection.
            interpreters: other Python interpreters in which the env's simulators run.

        Raises:
            ConfigError: the folder holds a data set made with other settings, or other files; or
                the format is read-only.
        """
        raise ConfigError(
            f"collect.format={collect.format} is read-only: {path} can't be written as one",
            hint="collect data sets, and name them in a YAML file: docs/your-data.md",
        )

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a run can use the data set in a folder, or can write its demonstrations there.

        At most a few frames are read, so that the check is fast.

        Raises:
            CheckpointError: the data set is damaged.
            ConfigError: the data set is of another env, it is incomplete and was begun with other
                settings, or the folder holds other files.
        """


def format_of(path: Path | None, new: str = "safetensors") -> DatasetFormat:
    """Return the format of the data set in a folder, or a default format if there is none.

    Args:
        path: the folder; None if there is no folder yet.
        new: name of the default format.

    Raises:
        PluginError: no installed plugin has the default format, or a format can't be loaded.
    """
    existing = None if path is None else _holding(path)
    if existing is not None:
        return existing[1]
    default: DatasetFormat = load_target(load_plugins().usable("dataset", new).spec.target)()
    return default


def require_dataset(path: Path, key: str) -> tuple[str, DatasetFormat]:
    """Return the name and the format of a data set that must exist.

    Args:
        path: path of the data set.
        key: the configuration key with that path, for messages.

    Raises:
        ConfigError: the path does not exist, or no installed format reads what is there.
    """
    existing = _holding(path)
    if existing is not None:
        return existing
    if not path.exists():
        raise ConfigError(
            f"{key} must be a data set that is there, got {str(path)!r}: {_missing(path)}",
            hint=MAKE_ONE.format(path=path),
        )
    formats = ", ".join(sorted(load_plugins().names("dataset")))
    kind = "folder without demonstrations" if path.is_dir() else "file that describes none"
    raise ConfigError(
        f"{key} must be a data set, got {str(path)!r}: a {kind} that an installed format reads "
        f"({formats})",
        hint=f"a description of data of your own: docs/your-data.md; "
        f"{MAKE_ONE.format(path='FOLDER')}",
    )


def open_dataset(path: Path) -> tuple[str, Dataset]:
    """Return the name of the format and the data set at `path`, the value of `collect.path`.

    Raises:
        ConfigError: there is no data set, or its collection was interrupted.
        CheckpointError: the data set is damaged.
    """
    name, data_format = require_dataset(path, "collect.path")
    data = data_format.read(path)
    if not data.complete:
        raise ConfigError(
            f"collect.path must be a finished data set, got {str(path)!r}: its collection was "
            f"interrupted after {len(data)} episodes",
            hint="continue it by the command that began it: rlcore collect ... "
            f"collect.output={path}",
        )
    return name, data


def check_readable(path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> Dataset:
    """Check that a run can learn from the data set at `path`, the value of `collect.path`.

    For the arguments see :meth:`DatasetFormat.check_folder`.

    Returns:
        The data set.

    Raises:
        ConfigError: the data set is missing, unfinished, or of another env.
        CheckpointError: the data set is damaged.
    """
    _, data = open_dataset(path)
    format_of(path).check_folder(path, spec, collect, seed=seed)
    return data


def _holding(path: Path) -> tuple[str, DatasetFormat] | None:
    """Return the name and the instance of the first format that recognises a data set, or None."""
    for component in load_plugins().components("dataset"):
        candidate: DatasetFormat = load_target(component.spec.target)()
        if candidate.holds(path):
            return component.spec.name, candidate
    return None


def _missing(path: Path) -> str:
    """Describe which part of a path does not exist, and name a similar path or nearby data sets."""
    folder = next(parent for parent in path.parents if parent.exists())
    name = path.relative_to(folder).parts[0]
    if not folder.is_dir():
        return f"{folder} is a file"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if name in names:
        return f"{folder / name} is a link to a missing file"
    similar = nearest_choice(name, names)
    if similar is not None:
        similar_path = folder / similar / path.relative_to(folder / name)
        return f"there is no {name} in {folder}. Did you mean {str(similar_path)!r}?"
    sets = [entry for entry in names[:MAX_SEARCHED_ENTRIES] if _holding(folder / entry) is not None]
    return f"there is no {name} in {folder}, which holds {', '.join(sets) or 'no data sets'}"
