"""Core and plugins name nothing by words that do not tell: the figures of benchmarks/house.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import house

ROOT = Path(__file__).parents[2]


def test_names_tell_what_they_are():
    used = house.words_in_use(ROOT)
    assert {word: where for word, where in used.items() if word not in house.FIELDS_WORDS} == {}
    assert house.FIELDS_WORDS.keys() - used.keys() == set(), "nothing is named so any more"
