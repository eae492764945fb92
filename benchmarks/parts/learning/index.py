"""The row of a set in the table of docs/results/README.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from parts.learning.cells import CONTROLS, START, Record
from parts.learning.page import NOT_RUN, Sheet, pooled


def in_brief(sheet: Sheet) -> list[str]:
    """Return the set's figures for the table of all recipes, each by seed: success of the start,
    of both controls and of the arm that solves most, among those of most seeds, then episodes, and
    minutes of that arm.

    They are those of the first planned table. Where nothing was run an entry says so.
    """
    demonstrations, episodes = sheet.planned.tables[0]
    seeds = sorted({cell.seed for cell in sheet.cells})
    by_run = {
        run: [sheet.cells.get(sheet.cell(seed, demonstrations, episodes, run)) for seed in seeds]
        for run in (START, *CONTROLS, *sheet.arms)
    }
    played = {run: [each for each in by_run[run] if each] for run in sheet.arms}
    before = [_by_seed(by_run[run], _solved) for run in (START, *CONTROLS)]
    # an arm with another model has another start than the row's
    ranks = {
        run: (len(records), pooled(records).rate)
        for run, records in played.items()
        if records and not records[0].own_start
    }
    if not ranks:
        return [*before, NOT_RUN, f"{episodes:,}", NOT_RUN]
    best = max(ranks, key=lambda run: ranks[run])
    return [
        *before,
        f"{best.upper()} {_by_seed(by_run[best], _solved)}",
        f"{episodes:,}",
        _by_seed(by_run[best], lambda record: f"{record.seconds / 60:.0f}"),
    ]


def with_row(index: str, sheet: Sheet) -> str:
    """Return the text of docs/results/README.md with the set's figures in its row of the table;
    unchanged if the table has no row that links to the set's page."""
    row = re.compile(
        rf"^(\| \[[^]|]+\]\(learning-{re.escape(sheet.name)}\.md\) \|[^|]*\|).*$", re.MULTILINE
    )
    figures = f" {' | '.join(in_brief(sheet))} |"
    return row.sub(lambda found: found[1] + figures, index)


def _by_seed(records: Sequence[Record | None], shown: Callable[[Record], str]) -> str:
    """Return what is shown of the records of a run, by seed."""
    entries = [NOT_RUN if record is None else shown(record) for record in records]
    return NOT_RUN if {*entries} == {NOT_RUN} else " / ".join(entries)


def _solved(record: Record) -> str:
    return f"{pooled([record]).rate:.3f}"
