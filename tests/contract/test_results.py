"""The table of docs/results/README.md says what the `summary.json` files beside it say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
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


def figures_of_recipe(name: str) -> list[str]:
    """Return what the table has to say of a recipe: rates by seed, episodes, and minutes of RL."""
    runs = summaries(name)
    controls = controls_of_page(name)
    start, control, after = (
        by_seed([rate(run, figure, controls) for run in runs]) for figure in FIGURES
    )
    episodes = sorted({f"{run['episodes']:,}" for run in runs})
    return [start, control, NOT_RUN, after, " / ".join(episodes), by_seed(map(minutes, runs))]


def rate(run: dict[str, Any], figure: str, controls: dict[str, str]) -> str:
    if run.get(figure) is not None:
        return f"{run[figure]['rate']:.3f}"
    if figure == "success_control":  # run afterwards, so that no summary has it
        return controls.get(str(run["seed"]), NOT_RUN)
    return NOT_RUN


def minutes(run: dict[str, Any]) -> str:
    seconds = run["seconds"]
    return f"{(seconds['rollout'] + seconds['update']) / 60:.0f}" if seconds else "?"


def by_seed(entries: Iterable[str]) -> str:
    shown = [*entries]
    return NOT_RUN if {*shown} == {NOT_RUN} else " / ".join(shown)


def rows(linked: str) -> list[tuple[str, str]]:
    """Return the page and the figures of each row of the table whose page's name matches."""
    page = (RESULTS / "README.md").read_text()
    return re.findall(
        rf"^\| \[[^\]]+\]\(({linked})\.md\)[^|]*\|[^|]*\| (.+) \|$", page, re.MULTILINE
    )


def test_the_table_has_the_figures_of_every_recipe_that_was_measured():
    found = rows(r"(?!learning-)\w+")
    assert {name for name, _ in found} == {
        each.parent.name for each in RESULTS.glob("*/seed*.json")
    }
    for name, figures in found:
        # the method's column begins with the algorithm, which no summary names
        assert re.sub(r"\| [A-Z]+ ", "| ", figures).split(" | ") == figures_of_recipe(name), name
