"""Records of a collected data set, whatever its format: its episodes, its env and its settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode, OtherInterpreter
from rlcore.files.atomic import is_partial
from rlcore.runs.checkpoint import writing
from rlcore.runs.env_facts import EnvFacts
from rlcore.runs.manifest import versions

INFO = "info.json"
"""Description of a data set in the safetensors format."""
CONTINUE = (
    "the episodes collected before are complete: the same command again, or rlcore resume RUN, "
    "continues the collection"
)


@dataclass(frozen=True)
class EpisodeRow:
    """A row of the table: address, task, instruction, success, length and file of an episode."""

    task_index: int
    trial: int
    replica: int
    task: str
    task_description: str
    success: bool
    length: int
    file: str

    @classmethod
    def of(cls, demonstration: Demonstration, tasks: Sequence[str], file: str) -> EpisodeRow:
        """Return the row of a demonstration.

        Args:
            tasks: task names by number.
            file: path of the episode's file in the data set.
        """
        address = demonstration.episode
        return cls(
            task_index=address.task,
            trial=address.trial,
            replica=address.replica,
            task=tasks[address.task],
            task_description=demonstration.instruction,
            success=bool(demonstration.success),
            length=len(demonstration.actions),
            file=file,
        )

    @property
    def episode(self) -> Episode:
        """Return the address of the episode, without its group."""
        return Episode(self.task_index, self.trial, self.replica)


@dataclass(frozen=True, kw_only=True)
class DataInfo(EnvFacts):
    """The meaning and origin of a data set's arrays.

    Attributes:
        tasks: task names by `task_index`.
        collect: settings of the collection, without path, output and format.
        seed: root seed of the collection.
        versions: versions of the packages that collected it.
    """

    tasks: list[str]
    collect: dict[str, Any]
    seed: int
    versions: dict[str, str]

    @classmethod
    def of_collection(
        cls,
        spec: EnvSpec,
        collect: CollectConfig,
        seed: int,
        interpreters: Iterable[OtherInterpreter] = (),
    ) -> DataInfo:
        """Return the facts of an env and of a collection in it.

        Args:
            spec: spec of the env.
            collect: settings of the collection.
            seed: root seed of the collection.
            interpreters: other Python interpreters that run the env's simulators, for the versions
                (:func:`rlcore.runs.manifest.versions`).
        """
        settings = asdict(collect)
        # paths change when a data set is moved, and its files show their format
        del settings["path"], settings["output"], settings["format"]
        return cls(
            **asdict(EnvFacts.from_spec(spec)),
            tasks=list(spec.tasks),
            collect=settings,
            seed=seed,
            versions=versions(interpreters, {"train": spec}),
        )


def require_new(episode: Episode, written: Collection[Episode], path: Path) -> None:
    """Raise ValueError if the data set at `path` already has an episode; its group is ignored."""
    address = episode._replace(group=-1)
    if address in written:
        raise ValueError(f"{address} is already in {path}")


def check_same_env(facts: EnvFacts, spec: EnvSpec, source: Path, hint: str = "") -> None:
    """Raise ConfigError unless a policy for `spec` can learn from data with these env facts.

    Args:
        source: the file or folder that states the facts, for messages.
        hint: what to change; the default is to collect again.
    """
    for fact, recorded, expected in facts.differences(EnvFacts.from_spec(spec), pixels=True):
        origin = f"{source} (env {facts.env!r})" if facts.env else source
        raise ConfigError(
            f"the demonstrations in {origin} have {fact} {recorded}, env {spec.name!r} has "
            f"{expected}",
            hint=hint or "collect demonstrations with the settings of this env: rlcore collect",
        )


def no_demonstrations(path: Path) -> ConfigError:
    """Return the error for a data set in which no episode succeeded."""
    return ConfigError(
        f"no demonstrations are left to learn from in {path}", hint="collect more: rlcore collect"
    )


def check_same_settings(path: Path, stored: DataInfo, wanted: DataInfo) -> None:
    """Raise ConfigError if a continued collection has other settings; only versions may differ."""
    stored_settings = asdict(stored)
    requested_settings = asdict(wanted)
    del requested_settings["versions"]
    # sentences come last, because they differ whenever the tasks do
    for key in sorted(requested_settings, key="sentences".__eq__):
        if requested_settings[key] != stored_settings[key]:
            raise ConfigError(
                f"{path} holds demonstrations with {key} {stored_settings[key]}, now asked for "
                f"{requested_settings[key]}",
                hint="set collect.output to a new folder",
            )


def check_empty(path: Path) -> None:
    """Raise ConfigError if `path` is a file, or a folder with files that no collection wrote."""
    if path.is_file():
        raise ConfigError(
            f"{path} is a file that describes no demonstrations",
            hint="set collect.output to a folder",
        )
    if path.is_dir() and entries(path) - {INFO}:
        raise ConfigError(
            f"{path} holds files that are not demonstrations",
            hint="set collect.output to a new folder",
        )


def entries(path: Path) -> set[str]:
    """List the entries of a folder, without partial files and folders of nothing else.

    A killed collection leaves partial files behind, to which no other file refers.
    """
    return {
        entry.name
        for entry in path.iterdir()
        if not is_partial(entry.name)
        and (entry.is_symlink() or not entry.is_dir() or entries(entry))
    }


def writing_episode(file: Path) -> AbstractContextManager[None]:
    """Return a context in which failing to write `file` raises CheckpointError, with a hint."""
    return writing(file, hint=CONTINUE)
