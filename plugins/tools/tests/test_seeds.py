"""Intervals over seeds and starts, worked by hand."""

from __future__ import annotations

import random

import pytest
from rlcore_tools.runs.seeds import Seeds, difference_over_seeds, rate_over_seeds, spread, student

from rlcore.runs.statistics import paired_difference, success_rate


def outcomes(text: str) -> dict[int, list[bool]]:
    return {start: [letter == "1"] for start, letter in enumerate(text)}


def test_quantiles_are_those_of_the_tables():
    """Of Student's t, two-sided: 95% with 1, 2, 3, 10 degrees of freedom; 99% with 5."""
    found = [student(0.95, 1), student(0.95, 2), student(0.95, 3), student(0.95, 10)]
    assert found == pytest.approx([12.706, 4.303, 3.182, 2.228], abs=5e-4)
    assert student(0.99, 5) == pytest.approx(4.032, abs=5e-4)
    assert student(0.95, 1e6) == pytest.approx(1.95996, abs=1e-4)


def test_the_variance_of_two_seeds_on_four_starts():
    """1100 and 1110: mean 5/8. Means of starts 1, 1, 1/2, 0, squares about 5/8 in 64ths:
    9 + 9 + 1 + 25 = 44, / 3 / 4: 0.0573. Of seeds 1/2, 3/4: 2 * 1/64 / 1 / 2 = 1/64. The rest,
    Y - start - seed + mean: +1/8 and -1/8 for starts 1, 2, 4, -3/8 and +3/8 for start 3, so
    2 * (1 + 1 + 9 + 1) / 64 = 3/8, / (1 * 3) / 8: 1/64."""
    found = spread([outcomes("1100"), outcomes("1110")])
    of_starts, of_seeds, rest = 44 / 64 / 12, 1 / 64, 1 / 64
    total = of_starts + of_seeds - rest
    assert found.mean == 5 / 8 and found.variance == pytest.approx(total)
    assert found.freedom == pytest.approx(total**2 / (of_starts**2 / 3 + of_seeds**2))


def test_one_seed_has_the_intervals_of_a_run():
    a, b = outcomes("11010010"), outcomes("11111010")
    assert rate_over_seeds(Seeds([a])) == success_rate([*a.values()])
    assert difference_over_seeds(Seeds([a]), Seeds([b])) == paired_difference(a, b)


def test_seeds_that_came_out_apart_tell_little_and_alike_ones_more():
    half = "1" * 20 + "0" * 20
    alike = rate_over_seeds(Seeds([outcomes(half)] * 3))
    apart = rate_over_seeds(Seeds([outcomes("1" * 40), outcomes("0" * 40), outcomes(half)]))
    assert alike.rate == apart.rate == 0.5 and alike.n == 120
    assert apart.hi - apart.lo > 0.7 > 0.35 > alike.hi - alike.lo
    # three equal seeds are as sure as one: the starts are the same
    one = success_rate([*outcomes(half).values()])
    assert alike.hi - alike.lo == pytest.approx(one.hi - one.lo, rel=0.1)


def test_equal_outcomes_have_the_interval_of_their_starts():
    """Wilson with 10 of 10: lo = 1 / (1 + z^2 / 10)."""
    found = rate_over_seeds(Seeds([outcomes("1" * 10)] * 2))
    assert (found.rate, found.hi) == (1.0, 1.0)
    assert found.lo == pytest.approx(1 / (1 + 3.8415 / 10), abs=1e-4)


def test_a_difference_is_paired_over_the_starts():
    """Two seeds, 60 starts, half of them easy in both settings: the same difference is surer where
    the easy starts are the same ones."""
    hard_for_both = [outcomes("1" * 30 + "0" * 30)] * 2
    better = [outcomes("1" * 36 + "0" * 24)] * 2
    elsewhere = [outcomes("0" * 24 + "1" * 36)] * 2
    paired, crossed = (
        difference_over_seeds(Seeds(hard_for_both), Seeds(b)) for b in (better, elsewhere)
    )
    assert paired.mean == crossed.mean == pytest.approx(0.1)
    assert 0 < paired.hi - paired.lo < 0.6 * (crossed.hi - crossed.lo)


def test_unlike_starts_are_refused():
    with pytest.raises(ValueError):
        rate_over_seeds(Seeds([outcomes("10"), outcomes("101")]))
    with pytest.raises(ValueError):
        difference_over_seeds(Seeds([outcomes("10")] * 2), Seeds([outcomes("101")] * 2))


@pytest.mark.parametrize(("seeds", "starts"), [(2, 40), (5, 40), (3, 200)])
def test_an_interval_covers_the_truth_at_its_level(seeds, starts):
    """Success has a part of the seed, normal with 0.08, and one of the start: P = 0.6 + s +- 0.2.
    The mean over all seeds and starts is 0.6; of 400 experiments an interval that holds in 95%
    misses 20, more than 40 with a chance below 1e-4."""
    draw, missed = random.Random(seeds), 0
    for _ in range(400):
        of_starts = [0.2 * draw.choice((-1, 1)) for _ in range(starts)]
        runs = []
        for _ in range(seeds):
            own = 0.6 + draw.gauss(0, 0.08)
            runs.append({i: [draw.random() < own + s] for i, s in enumerate(of_starts)})
        lo, hi = rate_over_seeds(Seeds(runs))[2:]
        missed += not lo <= 0.6 <= hi
    assert missed <= 40
