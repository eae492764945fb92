"""The picture of a set: success against training episodes, a colour for each run."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore_tools.report.chart import Point, Series, chart

from parts.learning.cells import CONTROLS, START, Record
from parts.learning.page import Sheet, conditions, pooled
from rlcore.runs.statistics import wilson

WIDTH = 640
HEIGHT = 320
COLOURS = (
    "#666666",
    "#000000",
    "#b08d57",
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
)
STYLE = (
    ".rule{stroke:#ddd}.curve{fill:none;stroke-width:2}.hover{opacity:0}.band{opacity:.15}"
    ".error{stroke-width:1.5}"
)


def picture(sheet: Sheet) -> str | None:
    """Return the SVG of the first table that has a curve; None if no table has one."""
    for demonstrations, episodes in sheet.tables:
        runs = {
            run: [
                record
                for seed in sheet.seeds
                if (record := sheet.cells.get(sheet.cell(seed, demonstrations, episodes, run)))
            ]
            for run in (START, *CONTROLS, *sheet.arms)
        }
        if any(record.curve for records in runs.values() for record in records):
            return drawn(runs, f"{sheet.name}, {conditions(demonstrations, episodes)}", episodes)
    return None


def drawn(runs: dict[str, list[Record]], title: str, episodes: int) -> str:
    """Return the SVG of the records of each run, one for each seed."""
    series = []
    for colour, (run, records) in enumerate(runs.items()):
        line = training(records)
        if line:
            series.append(Series(run, line, colour=colour))
        if records:
            rate, _, low, high = pooled(records)
            # beside each other, as all end after as many episodes
            x = 0.0 if run == START else episodes * (1 + 0.02 * colour)
            series.append(Series(run, [Point(x, rate, low, high)], colour=colour, joined=False))
    label = f"success against episodes: {title}"
    svg = chart(
        series, width=WIDTH, height=HEIGHT, label=label, x_label="episodes", y_range=(0.0, 1.0)
    )
    return styled(str(svg), [run for run, records in runs.items() if records], [*runs])


def training(records: Sequence[Record]) -> list[Point]:
    """Return success in training after each update that all seeds have made, seeds pooled."""
    points = []
    episodes = 0.0
    for updates in zip(*(record.curve for record in records), strict=False):
        played = sum(count for count, _ in updates)
        successes = sum(count for _, count in updates)
        episodes += played / len(updates)
        if played:
            rate, low, high = wilson(successes, played)
            points.append(Point(episodes, rate, low, high))
    return points


def styled(svg: str, shown: Sequence[str], runs: Sequence[str]) -> str:
    """Return a picture that stands alone: with its colours, and a legend of the runs shown."""
    colour = {run: COLOURS[number % len(COLOURS)] for number, run in enumerate(runs)}
    style = STYLE + "".join(
        f".c{number} .curve,.c{number} .error{{stroke:{colour[run]}}}"
        f".c{number} .band,.c{number} .dot,.c{number} .point{{fill:{colour[run]}}}"
        for number, run in enumerate(runs)
    )
    names = "".join(
        f'<text x="60" y="{26 + 15 * number}" fill="{colour[run]}">{run}</text>'
        for number, run in enumerate(shown)
    )
    head = svg.index(">")
    opening = svg[:head].replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" '
    )
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    body = svg[head + 1 :].removesuffix("</svg>")
    return f"{opening}><style>{style}</style>{ground}{body}{names}</svg>\n"
