"""Intervals against numbers worked by hand and published examples."""

import pytest

from rlcore.runs.statistics import paired_difference, success_rate, wilson


def pairs(both, gained, lost, neither):
    """(before, after) outcomes with the given counts of pairs."""
    kinds = [(1, 1)] * both + [(0, 1)] * gained + [(1, 0)] * lost + [(0, 0)] * neither
    before = {("task", i): [bool(kind[0])] for i, kind in enumerate(kinds)}
    after = {("task", i): [bool(kind[1])] for i, kind in enumerate(kinds)}
    return before, after


def test_wilson_by_hand():
    # k = 8, n = 10, z = 1.959964, z^2 = 3.841459
    # scale  = 1 + 0.3841459                                  = 1.3841459
    # centre = (0.8 + 3.841459/20) / 1.3841459 = 0.99207/1.38415 = 0.716740
    # half   = 1.959964/1.3841459 * sqrt(0.016 + 3.841459/400)
    #        = 1.416010 * sqrt(0.02560365) = 1.416010 * 0.160011 = 0.226578
    rate, lo, hi = wilson(8, 10)
    assert rate == 0.8
    assert lo == pytest.approx(0.490162, abs=2e-6)
    assert hi == pytest.approx(0.943318, abs=2e-6)


def test_wilson_published_example():
    # Newcombe, Statistics in Medicine 17:857 (1998), table I: 81/263, score method
    rate, lo, hi = wilson(81, 263)
    assert (round(rate, 4), round(lo, 4), round(hi, 4)) == (0.3080, 0.2553, 0.3662)


@pytest.mark.parametrize(("k", "lo", "hi"), [(0, 0.0, 0.277533), (10, 0.722467, 1.0)])
def test_wilson_at_the_ends(k, lo, hi):
    # k = 0: hi = (z^2/n) / (1 + z^2/n) = 0.3841459 / 1.3841459 = 0.277533; k = n mirrors it
    interval = wilson(k, 10)
    assert interval.lo == pytest.approx(lo, abs=1e-6)
    assert interval.hi == pytest.approx(hi, abs=1e-6)
    assert 0.0 <= interval.lo <= interval.rate <= interval.hi <= 1.0


def test_wilson_narrows_with_less_confidence():
    # z(0.68268949) = 1: centre = (0.5 + 1/8)/1.25 = 0.5, half = 0.8 * sqrt(1/16 + 1/64)
    #              = 0.8 * 0.2795085 = 0.2236068
    interval = wilson(2, 4, confidence=0.6826894921370859)
    assert interval.lo == pytest.approx(0.5 - 0.2236068, abs=1e-6)
    assert interval.hi == pytest.approx(0.5 + 0.2236068, abs=1e-6)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_impossible_counts(k, n):
    with pytest.raises(ValueError):
        wilson(k, n)


def test_success_rate_counts_episodes():
    rate = success_rate([[True], [False], [True], [True]])
    assert rate == (0.75, 4, *wilson(3, 4)[1:])


def test_passes_over_the_same_starts_count_less_than_as_many_starts():
    # shares of 4 starts in 2 passes: 1, 1, 1/2, 0 -> p = 5/8
    # sum (m - p)^2 = 2 * 0.375^2 + 0.125^2 + 0.625^2 = 0.6875
    # n* = 4 * 3 * 0.625 * 0.375 / 0.6875 = 4.090909
    # scale 1 + 3.841459/4.090909 = 1.939023; centre (0.625 + 3.841459/8.181818)/1.939023 = 0.564466
    # half 1.959964/1.939023 * sqrt(0.234375/4.090909 + 3.841459/(4 * 4.090909^2)) = 0.342296
    rate = success_rate([[True, True], [True, True], [True, False], [False, False]])
    assert (rate.rate, rate.n) == (0.625, 8)
    assert rate.lo == pytest.approx(0.564466 - 0.342296, abs=5e-6)
    assert rate.hi == pytest.approx(0.564466 + 0.342296, abs=5e-6)


def test_passes_that_come_out_alike_say_no_more_than_one():
    once = [[True], [True], [False], [True]]
    twice = [passes * 2 for passes in once]
    assert success_rate(twice)[2:] == success_rate(once)[2:]
    ends = success_rate([[True] * 5] * 4)  # not a sign that the episodes are independent
    assert (ends.rate, ends.n, ends.lo) == (1.0, 20, wilson(4, 4).lo)


def test_passes_that_nothing_ties_to_their_start_count_in_full():
    # all shares 1/2: no start is better than another
    assert success_rate([[True, False], [False, True]] * 3)[1:] == (12, *wilson(6, 12)[1:])


def test_paired_difference_of_passes():
    # shares before 0, 1/2, 0, 1/2 and after 1/2, 1, 1/2, 1: p 1/4 and 3/4, perfectly correlated
    # n* = 4 * 3 * 0.1875 / (4 * 0.25^2) = 9 -> no more than the 8 episodes
    # Wilson 6/8: (0.409275, 0.928521), 2/8 mirrors it: (0.071479, 0.590725)
    # x = 1, 2, 1, 2 and y = 0, 1, 0, 1: n sum xy - sum x sum y = 4 * 4 - 6 * 2 = 4,
    #   less n k^2 / 2 = 8 -> corrected to 0
    # down = 0.340725 * sqrt 2 = 0.481857, up = 0.178521 * sqrt 2 = 0.252467
    before = {i: [False, bool(i % 2)] for i in range(4)}
    after = {i: [bool(i % 2), True] for i in range(4)}
    difference = paired_difference(before, after)
    assert difference.mean == 0.5
    assert difference.lo == pytest.approx(0.5 - 0.481857, abs=5e-6)
    assert difference.hi == pytest.approx(0.5 + 0.252467, abs=5e-6)
    with pytest.raises(ValueError):
        paired_difference(before, {i: [True] for i in range(4)})


def test_paired_difference_published_example():
    # Cavo et al. 2012 in Fagerland, Lydersen, Laake, "Statistical Analysis of Contingency
    # Tables", ch. 8: table (59, 6, 16, 80); Newcombe square-and-add -0.0621 (-0.1186 to -0.0046)
    difference = paired_difference(*pairs(59, 6, 16, 80))
    assert [round(x, 4) for x in difference] == [-0.0621, -0.1186, -0.0046]


def test_paired_difference_by_hand_without_correlation():
    # before 1/4, after 3/4; after = not before in no fixed way: both 1, gained 2, lost 0, neither 1
    # cross = 1*1 - 2*0 = 1 > 0, minus n/2 = 2 -> corrected to 0, so phi = 0
    # Wilson 3/4: scale 1.960365, centre (0.75 + 0.480182)/1.960365 = 0.627528,
    #   half 1.959964/1.960365 * sqrt(0.046875 + 0.060023) = 0.999796 * 0.326952 = 0.326885
    #   -> (0.300643, 0.954413); 1/4 mirrors it -> (0.045587, 0.699357)
    # down = sqrt((0.75-0.300643)^2 + (0.699357-0.25)^2) = 0.449357 * sqrt 2 = 0.635487
    # up   = sqrt((0.954413-0.75)^2 + (0.25-0.045587)^2) = 0.204413 * sqrt 2 = 0.289084
    difference = paired_difference(*pairs(1, 2, 0, 1))
    assert difference.mean == pytest.approx(0.5)
    assert difference.lo == pytest.approx(0.5 - 0.635487, abs=5e-6)
    assert difference.hi == pytest.approx(0.5 + 0.289084, abs=5e-6)


def test_paired_difference_is_antisymmetric_and_survives_no_discordance():
    before, after = pairs(30, 40, 5, 25)
    forth = paired_difference(before, after)
    back = paired_difference(after, before)
    assert forth.mean == -back.mean
    assert forth.lo == pytest.approx(-back.hi)
    assert forth.lo > 0
    same = paired_difference(*pairs(10, 0, 0, 0))
    assert same.mean == 0.0
    assert same.lo < 0.0 < same.hi


def test_paired_difference_needs_the_same_episodes():
    before, after = pairs(2, 1, 1, 2)
    del after["task", 0]
    after["other", 7] = [True]
    with pytest.raises(ValueError):
        paired_difference(before, after)
    with pytest.raises(ValueError):
        paired_difference({}, {})
