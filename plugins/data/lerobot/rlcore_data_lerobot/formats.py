"""Formats of LeRobot data sets: two versions, with videos or with PNG frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlcore.config.schema import CollectConfig
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec, OtherInterpreter
from rlcore.demonstrations.records import check_empty
from rlcore_data_lerobot.dataset import LeRobotSet
from rlcore_data_lerobot.index import read_index, version_of
from rlcore_data_lerobot.layout import FACTS, V2, V3
from rlcore_data_lerobot.mapping import mapping_of, read_description, undescribed_error
from rlcore_data_lerobot.own import own_of
from rlcore_data_lerobot.writer import LeRobotWriter

DESCRIBES = (".yaml", ".yml")


class LeRobotV3:
    """LeRobot v3.0 with videos; see :class:`rlcore.demonstrations.datasets.DatasetFormat`.

    It also reads description files, of data sets of any version.
    """

    writes = "v3.0"
    images = False

    def holds(self, path: Path) -> bool:
        """Return whether a folder holds a data set of this version, or a file describes one."""
        return _describes(path) or version_of(path) in V3

    def read(self, path: Path) -> LeRobotSet:
        """Open a data set that rlcore wrote, or one that a description file names."""
        if _describes(path):
            description = read_description(path)
            index = read_index(description.data)
            return LeRobotSet(index, mapping_of(description, index), described=path)
        index = read_index(path)
        own = own_of(path, index)
        if own is None:
            raise undescribed_error(index)
        return LeRobotSet(index, own.mapping(), rows=own.rows, complete=own.complete)

    def write(
        self,
        path: Path,
        spec: EnvSpec,
        collect: CollectConfig,
        *,
        seed: int,
        interpreters: Iterable[OtherInterpreter] = (),
    ) -> LeRobotWriter:
        """Begin or continue a data set of this version."""
        return LeRobotWriter(
            path,
            spec,
            collect,
            seed=seed,
            interpreters=interpreters,
            version=self.writes,
            images=self.images,
        )

    def check_folder(self, path: Path, spec: EnvSpec, collect: CollectConfig, *, seed: int) -> None:
        """See :meth:`rlcore.demonstrations.datasets.DatasetFormat.check_folder`."""
        # a collection that was killed while it wrote its first files
        if (path / FACTS).is_file() and version_of(path) is None:
            return LeRobotWriter.check_same(path, spec, collect, seed=seed)
        if not self.holds(path):
            if collect.stride != 1:
                raise ConfigError(
                    f"collect.format={collect.format} needs collect.stride=1, got {collect.stride}:"
                    " a LeRobot data set has a frame for each row",
                    hint="set collect.stride=1, or collect.format=safetensors",
                )
            return check_empty(path)
        data = self.read(path)
        if data.complete:
            data.check(spec)
        else:
            LeRobotWriter.check_same(path, spec, collect, seed=seed)
        data.check_files()


class LeRobotV3Images(LeRobotV3):
    """LeRobot v3.0 with frames as PNG in the tables."""

    images = True


class LeRobotV21(LeRobotV3):
    """LeRobot v2.1 with videos; reads v2.0 too."""

    writes = "v2.1"

    def holds(self, path: Path) -> bool:
        """Return whether a folder holds a data set of version 2."""
        return version_of(path) in V2


class LeRobotV21Images(LeRobotV21):
    """LeRobot v2.1 with frames as PNG in the tables."""

    images = True


def _describes(path: Path) -> bool:
    """Return whether `path` is a YAML file; it may be unreadable.

    A mixture is recognised by its own format, which is asked first.
    """
    return path.suffix in DESCRIBES and path.is_file()
