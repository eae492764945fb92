"""The table of docs/results/README.md says what the `summary.json` files beside it say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs/results"
FIGURES = ("success_before", "success_control", "success_after")
NOT_RUN = "not run"


def summaries(name: str) -> list[dict[str, Any]]:
    """Return the summaries of a page's runs, by seed."""
    files = sorted((RESULTS / name).glob("seed*_summary.json"))
    return [json.loads(file.read_text()) for file in files]


def cells(name: str) -> list[str]:
    """Return what the table has to say of a page: rates by seed, and episodes of training."""
    runs = summaries(name)
    rates = []
    for figure in FIGURES:
        played = [run.get(figure) for run in runs]
        shown = [NOT_RUN if one is None else f"{one['rate']:.3f}" for one in played]
        rates.append(NOT_RUN if {*shown} == {NOT_RUN} else " / ".join(shown))
    episodes = {f"{run['episodes']:,}" for run in runs}
    return [*rates, " / ".join(sorted(episodes))]


def test_the_table_has_the_figures_of_every_recipe_that_was_measured():
    page = (RESULTS / "README.md").read_text()
    rows = re.findall(r"^\| \[[^\]]+\]\((\w+)\.md\)[^|]*\|[^|]*\| (.+) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == {file.parent.name for file in RESULTS.glob("*/seed*.json")}
    for name, figures in rows:
        assert figures.split(" | ") == cells(name), name
