"""Pages that people write stay short enough to be read: a new page has to make room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 40_000
"""Words by hand in README.md and docs/. Lower it when pages get shorter; the aim is 32,000."""
GENERATED_PAGES = "results/learning-*.md"
GENERATED = re.compile(
    r"<!-- (?:(\w+) -->.*?<!-- /\1|([^>\n]+?):? begin -->.*?<!-- \2:? end) -->", re.DOTALL
)
"""A part of a page that a program writes, between two comments."""


def words_by_hand(text: str) -> int:
    """Return the words of a page as `wc -w` counts them, without its generated parts."""
    return len(GENERATED.sub("", text).split())


def test_pages_written_by_hand_do_not_grow():
    pages = {*(ROOT / "docs").rglob("*.md")} - {*(ROOT / "docs").glob(GENERATED_PAGES)}
    words = {
        str(page.relative_to(ROOT)): words_by_hand(page.read_text(encoding="utf-8"))
        for page in [ROOT / "README.md", *pages]
    }
    longest = sorted(words, key=words.__getitem__, reverse=True)[:5]
    total = sum(words.values())
    assert total <= LIMIT, (
        f"README.md and docs/ have {total} words by hand, {total - LIMIT} too many; the longest: "
        + ", ".join(f"{name} ({words[name]})" for name in longest)
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a b\n<!-- fits -->\n| c | d |\n<!-- /fits -->\ne", 3),
        ("a\n<!-- measured: begin -->\nb c\n<!-- measured: end -->\nd", 2),
        ("a\n<!-- the tables begin -->\nb\n<!-- the tables end -->", 1),
        ("a\n<!-- fits -->\nb", 5),  # never ends, so all of it counts
    ],
)
def test_what_a_program_writes_does_not_count(text: str, count: int):
    assert words_by_hand(text) == count
