"""Core stays small, and names nothing by words that do not tell: the figures of
benchmarks/house.py."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from code_size import code_lines
from house import FIELDS_WORDS, files_of, words_in_use

CODE_LINES = 16_500


def test_core_is_small():
    size = sum(code_lines(file.read_text(encoding="utf-8")) for file in files_of(ROOT, "rlcore"))
    assert size <= CODE_LINES, "what only some plugins need belongs to them (docs/design.md)"


def test_names_tell_what_they_are():
    used = words_in_use(ROOT)
    assert {word: where for word, where in used.items() if word not in FIELDS_WORDS} == {}
    assert FIELDS_WORDS.keys() - used.keys() == set(), "nothing is named so any more"
