"""Combine several data sets, of any formats, into one by a YAML file with the one key `mixture`.

mixture:
  reached: 1        # path relative to this file: weight with which a frame of this data set
  pots.yaml: 0.5    # is drawn, relative to a frame of the others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec
from rlcore.demonstrations.datasets import (
    Dataset,
    DatasetFormat,
    DatasetSummary,
    require_dataset,
)
from rlcore.demonstrations.split import Demonstrations
from rlcore.files.reading import UnreadableError, read_yaml
from rlcore.runs.env_facts import EnvFacts

KEY = "mixture"
WeightedItem = tuple[Sequence[Demonstration], int, float]
"""A part of a data set, the number of a demonstration in it, and its weight."""


class Mixture:
    """Several data sets as one; see :class:`rlcore.demonstrations.datasets.Dataset`.

    Attributes:
        parts: (data set, weight) of each.
        facts: those of the first data set, with the sentences of all.
    """

    complete = True

    def __init__(self, parts: Sequence[tuple[Dataset, float]]) -> None:
        self.parts = parts
        sentences: dict[str, str] = {}
        for data, _ in parts:
            sentences.update(data.facts.sentences)
        self.facts: EnvFacts = replace(parts[0][0].facts, sentences=sentences)

    def __len__(self) -> int:
        return sum(len(data) for data, _ in self.parts)

    def starts(self, *, successful: bool = False) -> set[tuple[str, int]]:
        """Return (task name, trial) of the episodes of all data sets."""
        return {start for data, _ in self.parts for start in data.starts(successful=successful)}

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError unless a policy for `spec` can learn from every data set."""
        for data, _ in self.parts:
            data.check(spec)

    def summary(self) -> DatasetSummary:
        """Return the summed counts and the warnings of all data sets."""
        summaries = [data.summary() for data, _ in self.parts]
        return DatasetSummary(
            sum(summary.demonstrations for summary in summaries),
            sum(summary.episodes for summary in summaries),
            tuple(warning for summary in summaries for warning in summary.warnings),
            sum(summary.frames for summary in summaries),
        )

    def split(
        self, val_fraction: float, seed: int
    ) -> tuple[Sequence[Demonstration], Sequence[Demonstration]]:
        """Split each data set on its own, so that validation has the same share of each."""
        train: list[WeightedItem] = []
        val: list[WeightedItem] = []
        for data, weight in self.parts:
            for items, part in zip((train, val), data.split(val_fraction, seed), strict=True):
                items += [(part, number, weight) for number in range(len(part))]
        return Demonstrations(train, _read), Demonstrations(val, _read)


def _read(item: WeightedItem) -> Demonstration:
    part, number, weight = item
    return replace(part[number], weight=weight)


class MixtureFormat(DatasetFormat):
    """The read-only mixture format."""

    def holds(self, path: Path) -> bool:
        """Return whether `path` is a YAML file with the key `mixture`."""
        return _mixture_value(path) is not None

    def read(self, path: Path) -> Mixture:
        """Open all data sets of a mixture."""
        return Mixture(
            [
                (member_format.read(member), weight)
                for member, member_format, weight in _members(path)
            ]
        )

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """Check each data set by its own format, an interrupted one as far as it was collected."""
        if not self.holds(path):
            self.write(path, spec, collect, seed=seed)
        for member, member_format, _ in _members(path):
            member_format.read(member).check(spec)
            member_format.check_folder(member, spec, collect, seed=seed)


def _mixture_value(path: Path) -> object:
    """Return the value of `mixture` in a YAML file; None if the file is not a mixture."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    try:
        settings = read_yaml(path, once=True)
    except (OSError, UnreadableError):
        return None  # another format that reads YAML reports the error
    return settings.get(KEY) if isinstance(settings, dict) else None


def _members(path: Path) -> list[tuple[Path, DatasetFormat, float]]:
    """Return (path, format, weight) of the data sets of a mixture.

    Raises:
        ConfigError: the mixture is empty, a path is missing or no data set, or a weight is not a
            number above 0.
    """
    weights = _mixture_value(path)
    if not isinstance(weights, dict) or not weights:
        raise ConfigError(
            f"{path}: {KEY}: expected data sets with weights, got {weights!r}",
            hint="see docs/your-data.md",
        )
    key = f"{path}: {KEY}"
    members = []
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight > 0:
            raise ConfigError(
                f"{key}.{name}: expected a weight above 0, got {weight!r}",
                hint="see docs/your-data.md",
            )
        member = path.parent / str(name)
        members.append((member, require_dataset(member, key)[1], float(weight)))
    return members
