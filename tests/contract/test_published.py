"""Published figures: pages have the tables of `published.yaml` as they stand, and each column of
them is one that rlcore itself counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import protocol_spec

from rlcore.contracts.specs import ProtocolSpec
from rlcore.plugins.registry import load_plugins
from rlcore.training.protocol.table import headline, protocol_rows

ROOT = Path(__file__).parents[2]
SPECS = {name: protocol_spec(load_plugins(), name) for name in load_plugins().names("protocol")}
PUBLISHED = {name: spec for name, spec in SPECS.items() if spec.published}


def table(name: str, spec: ProtocolSpec) -> str:
    """As it is to stand in the page of the env."""
    counted = [*spec.groups, *spec.averages, *spec.totals]
    columns = [c for c in counted if any(c in row.figures for row in spec.published)]
    head = ["model", "trained by", *columns, "weights"]
    lines = [head]
    for row in spec.published:
        figures = (f"{row.figures[c]:.2f}" if c in row.figures else "" for c in columns)
        lines.append([row.model, row.algorithm, *figures, row.weights and f"`{row.weights}`"])
    sources = dict.fromkeys((row.source, row.setting) for row in spec.published)
    notes = [
        f"* published: {source}" + (setting and f" ({setting})") for source, setting in sources
    ]
    notes += [f"* differs: {line}" for line in spec.differs]
    head_line, *rows = (f"| {' | '.join(line)} |".replace("  ", " ") for line in lines)
    shown = "\n".join([head_line, "|---" * len(head) + "|", *rows])
    return "\n".join([shown, "", *notes, ""])


def test_all_four_benchmarks_have_published_figures():
    assert {spec.env for spec in PUBLISHED.values()} == {
        "metaworld",
        "libero",
        "maniskill",
        "robotwin",
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_page_of_the_env_has_the_table(name):
    spec = PUBLISHED[name]
    page = (ROOT / f"docs/{spec.env}.md").read_text(encoding="utf-8")
    wanted = table(name, spec)
    assert wanted in page, f"docs/{spec.env}.md is to have:\n{wanted}"


@pytest.mark.parametrize("name", PUBLISHED)
def test_they_stand_below_ours_in_the_printed_table(name):
    spec = PUBLISHED[name]
    played = {group: {row: [(True,)] for row in rows} for group, rows in spec.groups.items()}
    text = headline(protocol_rows(played, spec.averages, spec.totals), name, spec)
    for row in spec.published:
        assert text.count(f"published: {row.source}") >= 1
        for figure in row.figures.values():
            assert f"{figure:.2f}%" in text
    assert [line for line in text.splitlines() if line.startswith("differs: ")] == [
        f"differs: {line}" for line in spec.differs
    ]
