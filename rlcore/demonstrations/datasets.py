"""Look up who reads and writes demonstrations: components of kind `dataset`. Light.

A run asks for the format of a folder by the folder itself; a new one is written as
`collect.format` says. What is read must be there: a path with a slip of the pen is no new data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rlcore.contracts.errors import ConfigError, nearest
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rlcore.config.schema import CollectConfig
    from rlcore.contracts.protocols import Demonstration
    from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
    from rlcore.run_folder.env_facts import EnvFacts

MAKE_ONE = (
    "rlcore collect env=ENV collect.output={path} makes one where the env has an expert; "
    "collect.path=null collects into the run"
)
LOOKED_AT = 50  # entries of a folder that are asked whether they are data sets

OnProgress = Callable[[Mapping[str, float]], None]
"""Called after each step with `{"steps", "seconds", "train_loss", "val_loss"}`: done and spent so
far, and the latest losses (no `val_loss` where nothing is held back)."""


@dataclass(frozen=True)
class SupervisedSamples:
    """M training samples.

    Attributes:
        inputs: `{name: [M, ...]}`, as a policy's `sft_batch` prepared them.
        actions: float32 `[M, H, A]`, targets in the env's units.
        mask: bool `[M, H]`, false past the end of the demonstration.
        weights: float64 `[M]`, how often each is drawn, relative to others; None: all alike.
    """

    inputs: dict[str, Tensor]
    actions: Tensor
    mask: Tensor
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[tuple[dict[str, Tensor], Tensor, Tensor]]:
        """Inputs, actions and mask of each batch, which `rows` has as numbers of samples."""
        for one in rows:
            inputs = {name: array[one] for name, array in self.inputs.items()}
            yield inputs, self.actions[one], self.mask[one]


@dataclass(frozen=True)
class DatasetSummary:
    """How much of a data set is learned from.

    Attributes:
        demonstrations: that are learned from or validated on.
        episodes: that it has, also those that did not succeed.
        remarks: what the user must know of them, such as actions that are cut; a sentence each.
    """

    demonstrations: int
    episodes: int
    remarks: tuple[str, ...] = ()


class Dataset(Protocol):
    """A data set that is read.

    Attributes:
        facts: of the env that demonstrates.
        complete: whether its collection came to its end.
    """

    facts: EnvFacts

    @property
    def complete(self) -> bool: ...

    def __len__(self) -> int:
        """Count its episodes."""

    def starts(self) -> set[tuple[str, int]]:
        """Return (task by name, trial) of its episodes."""

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from these episodes."""

    def summary(self) -> DatasetSummary:
        """Count what is learned from.

        Raises:
            CheckpointError: its rows contradict each other or what is said of them.
            ConfigError: nothing of it can be learned from.
        """

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Sequence[Demonstration], Sequence[Demonstration]]:
        """Return (training, validation) of those that succeeded, by whole episodes, read when asked
        for. Which ones are held back depends on (seed, task) alone.

        Raises:
            ConfigError: there is nothing to hold back.
        """


class DatasetWriter(Protocol):
    """A data set that is collected."""

    def episodes(self) -> set[Episode]:
        """Return addresses already written, group left out."""

    def add(self, demonstration: Demonstration) -> None:
        """Write one episode; it is on the disk when this returns."""


class DatasetFormat(Protocol):
    """A form of data sets on disk. Made without arguments."""

    def holds(self, path: Path) -> bool:
        """Return whether a folder holds a data set of this form, a complete one or a begun one."""

    def read(self, path: Path) -> Dataset:
        """Read a data set, its episodes when they are asked for.

        Raises:
            CheckpointError: no data set at `path`, or a damaged one.
        """

    def write(
        self,
        path: Path,
        spec: EnvSpec,
        collect: CollectConfig,
        *,
        seed: int,
        interpreters: Iterable[OtherInterpreter],
    ) -> AbstractContextManager[DatasetWriter]:
        """Begin a data set, or go on with one; leaving the context completes it.

        Args:
            path: the folder.
            spec: of the env that demonstrates.
            collect: its settings.
            seed: root seed of the collection.
            interpreters: other ones, in which its simulators run.

        Raises:
            ConfigError: the folder holds a data set made with other settings, or other files.
        """

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check that a run can learn from the data in a folder, or write its demonstrations there.
        Reads no frames but a few.

        Raises:
            CheckpointError: a data set that is damaged.
            ConfigError: one of another env, a begun one of other settings, or other files.
        """


def format_of(path: Path | None, new: str = "safetensors") -> DatasetFormat:
    """Find the format of the data set in a folder; of one without any, and of None, `new`.

    Raises:
        PluginError: no plugin brings that, or it can't be loaded.
    """
    found = None if path is None else _holding(path)
    if found is not None:
        return found[1]
    default: DatasetFormat = load_target(load_plugins().usable("dataset", new).spec.target)()
    return default


def require_dataset(path: Path, key: str) -> tuple[str, DatasetFormat]:
    """Find the format of a data set that is to be read, by its name.

    Args:
        key: that names the data set, for messages.

    Raises:
        ConfigError: it is not there, or holds nothing that an installed format reads.
    """
    found = _holding(path)
    if found is not None:
        return found
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


def _holding(path: Path) -> tuple[str, DatasetFormat] | None:
    """The first format that says that it holds a data set, and its name."""
    for component in load_plugins().components("dataset"):
        candidate: DatasetFormat = load_target(component.spec.target)()
        if candidate.holds(path):
            return component.spec.name, candidate
    return None


def _missing(path: Path) -> str:
    """Say up to where a path is there, and what was probably meant."""
    there = next(parent for parent in path.parents if parent.exists())
    name = path.relative_to(there).parts[0]
    if not there.is_dir():
        return f"{there} is a file"
    try:
        beside = sorted(entry.name for entry in there.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        return f"{there}: {error.strerror}"
    if name in beside:
        return f"{there / name} is a link to what is not there"
    near = nearest(name, beside)
    if near is not None:
        meant = there / near / path.relative_to(there / name)
        return f"there is no {name} in {there}. Did you mean {str(meant)!r}?"
    sets = [one for one in beside[:LOOKED_AT] if _holding(there / one) is not None]
    return f"there is no {name} in {there}, which holds {', '.join(sets) or 'no data sets'}"
