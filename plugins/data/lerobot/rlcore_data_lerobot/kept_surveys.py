"""Keep what was found in the rows of data sets, as checks of a run open a data set several times.

`rlcore plan` checks a run once for each layout, and each check reads all rows of the data set. They
are read again only if something has changed: the index, the mapping, or a file with rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlcore_data_lerobot.index import Index
from rlcore_data_lerobot.mapping import FeatureMapping
from rlcore_data_lerobot.rows import RowReader
from rlcore_data_lerobot.survey import Survey, Surveyor

Stamps = dict[Path, tuple[int, int]]
"""Time of the last change in ns and size in bytes, by file."""


@dataclass(frozen=True)
class _Kept:
    """A survey with its sources: index, mapping and the state of the files with rows."""

    index: Index
    mapping: FeatureMapping
    stamps: Stamps
    survey: Survey


_KEPT: dict[tuple[Path, Path | None], _Kept] = {}


def survey_of(
    index: Index, mapping: FeatureMapping, reader: RowReader, described: Path | None
) -> Survey:
    """Return the contents of all rows of a data set, which this process may have read before.

    For the arguments and errors see :class:`rlcore_data_lerobot.survey.Surveyor`; a survey that
    fails is made again.
    """
    stamps = _stamps(index)
    kept = _KEPT.get((index.path, described))
    if kept is not None and (kept.index, kept.mapping, kept.stamps) == (index, mapping, stamps):
        return kept.survey
    survey = Surveyor(index, mapping, reader, described).survey()
    _KEPT[index.path, described] = _Kept(index, mapping, stamps, survey)
    return survey


def _stamps(index: Index) -> Stamps:
    stamps: Stamps = {}
    for file in {entry.data for entry in index.entries}:
        with suppress(OSError):  # the surveyor reports a missing file
            found = file.stat()
            stamps[file] = (found.st_mtime_ns, found.st_size)
    return stamps
