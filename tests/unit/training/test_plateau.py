"""When success has stopped rising, and which round is kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rlcore.training.plateau import best_round, has_plateaued


@pytest.mark.parametrize(
    ("rates", "ended"),
    [
        ([], False),
        ([0.9], False),
        ([0.50, 0.50], False),  # one doubling gained nothing
        ([0.50, 0.50, 0.50], True),  # two did
        ([0.20, 0.45, 0.47, 0.49], True),  # +0.02 twice
        ([0.20, 0.21, 0.40, 0.41], False),  # +0.01, then +0.19, then +0.01: not in a row
        ([0.28, 0.31, 0.34], False),  # 3 points are enough, whatever 0.31 - 0.28 is in binary
        ([0.28, 0.309, 0.338], True),  # 2.9 points are not
        ([0.50, 0.40, 0.30], True),  # a fall is no gain
        ([0.50, 0.40, 0.45], False),  # a gain counts from the round before
        ([0.0, 0.0, 0.0], False),  # no success yet
        ([0.0, 0.0, 0.01, 0.02], False),  # one doubling after the first success gained little
        ([0.0, 0.01, 0.01, 0.02], True),  # two did
        ([0.2, 0.0, 0.1, 0.1], False),  # from 0 to 0.1 is a gain
        ([0.01, 0.0, 0.0], True),
    ],
)
def test_training_ends_after_two_doublings_that_gained_little(
    rates: Sequence[float], ended: bool
) -> None:
    assert has_plateaued(rates) is ended


@pytest.mark.parametrize(
    ("rates", "best"), [([0.1], 0), ([0.2, 0.5, 0.5], 1), ([0.5, 0.2, 0.4], 0), ([0.1, 0.2], 1)]
)
def test_the_first_of_the_best_rounds_is_kept(rates: Sequence[float], best: int) -> None:
    assert best_round(rates) == best
