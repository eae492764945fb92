"""The table of docs/results/README.md says what the `summary.json` files beside it say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs/results"
FIGURES = ("success_before", "success_control", "success_after")
NOT_RUN = "not run"
CONTROL = "control (more SFT)"
"""Column of a page for the control."""


def summaries(name: str) -> list[dict[str, Any]]:
    """Return the summaries of a page's runs, by seed."""
    files = sorted((RESULTS / name).glob("seed*_summary.json"))
    return [json.loads(file.read_text()) for file in files]


def controls_of_page(name: str) -> dict[str, str]:
    """Return the control's success by seed, as the page's own table has it."""
    lines = (RESULTS / f"{name}.md").read_text().splitlines()
    heads = [number for number, line in enumerate(lines) if f"| {CONTROL} |" in line]
    if not heads:
        return {}
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in lines[heads[0] :]]
    column = head.index(CONTROL)
    return {row[1]: row[column].split()[0] for row in rows if len(row) == len(head)}


def cells(name: str) -> list[str]:
    """Return what the table has to say of a page: rates by seed, and episodes of training."""
    runs = summaries(name)
    controls = controls_of_page(name)
    rates = []
    for figure in FIGURES:
        shown = []
        for run in runs:
            if run.get(figure) is not None:
                shown.append(f"{run[figure]['rate']:.3f}")
            elif figure == "success_control":  # run afterwards, so that no summary has it
                shown.append(controls.get(str(run["seed"]), NOT_RUN))
            else:
                shown.append(NOT_RUN)
        rates.append(NOT_RUN if {*shown} == {NOT_RUN} else " / ".join(shown))
    episodes = {f"{run['episodes']:,}" for run in runs}
    return [*rates, " / ".join(sorted(episodes))]


def test_the_table_has_the_figures_of_every_recipe_that_was_measured():
    page = (RESULTS / "README.md").read_text()
    rows = re.findall(r"^\| \[[^\]]+\]\((\w+)\.md\)[^|]*\|[^|]*\| (.+) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == {file.parent.name for file in RESULTS.glob("*/seed*.json")}
    for name, figures in rows:
        assert figures.split(" | ") == cells(name), name
