"""docs/checkpoint-layouts.csv: every layout of a checkpoint names a test that exists."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = ["model", "layout", "what happens", "test"]


def rows() -> list[list[str]]:
    with (ROOT / "docs/checkpoint-layouts.csv").open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert head == HEAD
    return lines


def test_every_model_with_checkpoints_is_there():
    assert {row[0] for row in rows()} == {
        "any",
        "OpenVLA and OpenVLA-OFT",
        "π0 and π0.5",
        "SmolVLA",
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[1])
def test_every_layout_names_its_test(row):
    """A test that is there, and what happens: that it loads, or that it is refused and why."""
    _model, _layout, happens, named = row
    assert happens.startswith(("loads", "refused: ", "refused as "))
    file, _, test = named.partition("::")
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), flags=re.MULTILINE), named
