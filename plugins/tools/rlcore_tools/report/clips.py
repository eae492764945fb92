"""Choose the videos of a report, embedded or linked. Knows nothing of their frames."""

from __future__ import annotations

import os
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import quote

from rlcore.results.tables import EpisodeResult, comparable
from rlcore_tools.report.record import RunRecord

EMBEDDED_BYTES = 7_000_000  # of videos in a page; base64 makes 9.3 MB of them
MOST_OF_A_KIND = 4
MOST_CHANGES = 2


@dataclass(frozen=True)
class Clip:
    """A filmed episode, ready for the page.

    Attributes:
        result: how it went.
        when: label of its evaluation.
        address: of the video: data, or a path relative to the page.
        embedded: whether the page holds the video itself.
    """

    result: EpisodeResult
    when: str
    address: str
    embedded: bool


class Shelf:
    """Hands out clips, embedded until the page has grown to its limit, and linked from then on."""

    def __init__(self, record: RunRecord, base: Path, limit: int = EMBEDDED_BYTES) -> None:
        self._record = record
        self._base = base
        self._left = limit

    def examples(self) -> tuple[list[Clip], list[Clip]]:
        """Successes and failures of the evaluation a run ended with, some of either as far as
        they were filmed, spread over tasks."""
        label, results = self._record.conclusion, self._record.after
        if label is None or results is None:
            return [], []
        filmed = [result for result in results if self._record.clip(label, result)]
        won = _spread(result for result in filmed if result.success)
        lost = _spread(result for result in filmed if not result.success)
        return (
            [self._clip(result, label) for result in won[:MOST_OF_A_KIND]],
            [self._clip(result, label) for result in lost[:MOST_OF_A_KIND]],
        )

    def changes(self) -> list[tuple[Clip, Clip]]:
        """(before, after) of filmed starts whose outcome changed: what was gained goes first."""
        label, after = self._record.conclusion, self._record.after or []
        before = self._record.before or []
        first = {(r.task, r.trial): r for r in before} if comparable(before, after) else {}
        changed = [
            (first[start], last)
            for last in _spread(after)
            if (start := (last.task, last.trial)) in first
            and last.success != first[start].success
            and self._record.clip("before", first[start])
            and self._record.clip(label or "", last)
        ]
        changed.sort(key=lambda pair: not pair[1].success)
        return [
            (self._clip(a, "before"), self._clip(b, label or "")) for a, b in changed[:MOST_CHANGES]
        ]

    def _clip(self, result: EpisodeResult, label: str) -> Clip:
        path = self._record.clip(label, result)
        assert path is not None  # only filmed episodes are asked for
        size = path.stat().st_size
        if size > self._left:
            return Clip(result, label, link(path, self._base), False)
        self._left -= size
        data = b64encode(path.read_bytes()).decode()
        return Clip(result, label, f"data:video/mp4;base64,{data}", True)


def link(path: Path, base: Path) -> str:
    """The address of a file for a page in the folder `base`."""
    return quote(os.path.relpath(path, base), errors="surrogateescape")


def _spread(results: Iterable[EpisodeResult]) -> list[EpisodeResult]:
    """The first of each task, then the second of each, and so on."""
    turns: defaultdict[str, Iterator[int]] = defaultdict(count)
    return sorted(results, key=lambda result: next(turns[result.task]))
