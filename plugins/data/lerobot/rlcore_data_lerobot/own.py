"""Read and write rlcore's own files in a LeRobot data set, which then needs no description.

meta/rlcore.json            meaning of the numbers, settings, whether it is complete
meta/rlcore_episodes.jsonl  a line per episode: its address, task and success
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.demonstrations.records import DataInfo, EpisodeRow
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore.files.reading import parse_json, read_lines
from rlcore.files.typed import as_type
from rlcore_data_lerobot.index import Index
from rlcore_data_lerobot.layout import FACTS
from rlcore_data_lerobot.mapping import Camera, FeatureMapping, Source

ROWS = "meta/rlcore_episodes.jsonl"
STATE = "observation.state"
ACTION = "action"
IMAGES = "observation.images."


@dataclass(frozen=True)
class Own:
    """rlcore's records of a data set that it wrote; rows are in the order of episode numbers."""

    info: DataInfo
    rows: Sequence[EpisodeRow]
    complete: bool

    def mapping(self) -> FeatureMapping:
        """Return the mapping of a data set that rlcore wrote: numbers are not converted."""
        return FeatureMapping(
            cameras={name: Camera(IMAGES + name) for name in self.info.cameras},
            states=(Source(STATE),) if self.info.states else (),
            actions=(Source(ACTION),),
            facts=self.info,
        )


def write_facts(path: Path, info: DataInfo, *, complete: bool) -> None:
    """Write atomically the meaning of the numbers and whether the collection is complete."""
    write_text(path / FACTS, json.dumps({"complete": complete, **asdict(info)}, indent=1) + "\n")


def own_of(path: Path, index: Index | None = None) -> Own | None:
    """Return rlcore's records of a data set; None if rlcore did not write it.

    Args:
        path: folder of the data set.
        index: index of the data set; None: it has no episode yet.

    Raises:
        CheckpointError: the records are damaged.
    """
    if not (path / FACTS).is_file():
        return None
    facts = read_mapping(path / FACTS)
    with damaged_on(path / FACTS):
        complete = as_type(bool, facts.pop("complete"), "complete")
        info = as_type(DataInfo, facts)
    count = 0 if index is None else len(index.entries)
    if not count:
        return Own(info, (), complete)
    with damaged_on(path / ROWS):
        lines = list(read_lines(path / ROWS))
        # there may be another line, of an episode that was never finished
        rows = [as_type(EpisodeRow, parse_json(line)) for line in lines[:count]]
    if len(rows) != count:
        raise damaged_error(path / ROWS, f"it has {len(rows)} episodes, meta/info.json {count}")
    return Own(info, rows, complete)


def require_own(path: Path, index: Index | None) -> Own:
    """Return :func:`own_of` for a data set that is to be continued.

    Raises:
        CheckpointError: rlcore did not write the data set, or its records are damaged.
    """
    own = own_of(path, index)
    if own is None:
        raise CheckpointError(
            f"{path} is a LeRobot data set that rlcore did not write, so it does not add to it",
            hint="set collect.output to a new folder",
        )
    return own
