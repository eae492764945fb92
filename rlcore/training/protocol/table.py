"""Format the results of a protocol in the form of published tables, with published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from rlcore.contracts.specs import ProtocolSpec
from rlcore.runs.statistics import Passes
from rlcore.runs.tables import PLAIN_WIDTH, SuccessRow, average, pooled
from rlcore.utils.console import as_text


def protocol_rows(
    groups: Mapping[str, Mapping[str, Sequence[Passes]]],
    averages: Mapping[str, Sequence[str]],
    totals: Mapping[str, Sequence[str]],
) -> list[SuccessRow]:
    """Return the success rates of rows, then groups, then averages and totals over groups.

    Args:
        groups: `{group: {row: passes of each start}}`; a group's rate is that of its pooled
            episodes.
        averages: `{name: groups}`; an average is the unweighted mean of its groups' rates.
        totals: `{name: groups}`; a total is the rate over all episodes of its groups.
    """
    cells = [pooled("task", row, [wins]) for rows in groups.values() for row, wins in rows.items()]
    group_rows = {name: pooled("group", name, list(rows.values())) for name, rows in groups.items()}
    means = [
        average(name, [group_rows[group] for group in members])
        for name, members in averages.items()
    ]
    total_rows = [
        pooled("overall", name, [wins for group in members for wins in groups[group].values()])
        for name, members in totals.items()
    ]
    return [*cells, *group_rows.values(), *means, *total_rows]


def headline(rows: Sequence[SuccessRow], title: str, spec: ProtocolSpec) -> str:
    """Format groups, averages and totals as columns, in percent, with the published results below.

    Lines below the table name the source of each published result, and how the protocol differs
    from that of the published results.

    Args:
        rows: result of :func:`protocol_rows`.
        title: title of the table.
        spec: the protocol.
    """
    columns = [row for row in rows if row.kind != "task"]
    table = Table(title=title, title_justify="left")
    table.add_column(min_width=12, overflow="fold")
    for row in columns:
        table.add_column(row.label, justify="right", overflow="fold")
    table.add_row("this policy", *(f"{100 * row.rate:.2f}%" for row in columns))
    intervals = (
        "" if row.lo is None or row.hi is None else f"{100 * row.lo:.1f} .. {100 * row.hi:.1f}"
        for row in columns
    )
    table.add_row("95% interval", *intervals, end_section=True)
    lines = []
    for result in spec.published:
        figures = (result.figures.get(row.label) for row in columns)
        percents = ("" if figure is None else f"{figure:.2f}%" for figure in figures)
        table.add_row(f"{result.model}, {result.algorithm}", *percents)
        lines.append(f"published: {result.source}" + (result.setting and f" ({result.setting})"))
    lines += [f"differs: {line}" for line in spec.differs]
    width = max(PLAIN_WIDTH, 14 * (len(columns) + 1))
    return "\n".join([as_text(table, width=width), *dict.fromkeys(lines)])
