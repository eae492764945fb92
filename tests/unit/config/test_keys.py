"""Ranges of keys."""

from __future__ import annotations

from math import inf, nan

import pytest

from rlcore.config.schema.keys import Range


@pytest.mark.parametrize(
    ("range", "within", "outside", "text"),
    [
        (Range(), [-3, 0.5, -1e6], [nan, inf, -inf, 1.1e6, -1.1e6, 10**400], "a finite number"),
        (Range(minimum=1), [1, 2, 10**6], [0, -1, nan, inf, 10**6 + 1], "at least 1"),
        (Range(exclusive_minimum=0), [1e-9], [0, -1, nan], "more than 0"),
        (Range(minimum=0, magnitude_limit=2**63 - 1), [2**63 - 1], [2**63, inf], "at least 0"),
        (Range(maximum=1), [1, -5], [1.1, nan], "at most 1"),
        (Range(exclusive_maximum=1), [0.9], [1, nan], "less than 1"),
        (Range(minimum=0, exclusive_maximum=1), [0, 0.5], [1, -0.1], "in [0, 1)"),
        (Range(exclusive_minimum=0, maximum=1), [1], [0], "in (0, 1]"),
        (Range(minimum=1, disabled=-1), [-1, 1], [0, -2], "-1 (off) or at least 1"),
    ],
)
def test_a_range_holds_numbers_and_has_a_text(range, within, outside, text):
    assert all(value in range for value in within)
    assert not any(value in range for value in outside)
    assert str(range) == text
