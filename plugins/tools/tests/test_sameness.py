"""Metrics that are the same, and where they part."""

from rlcore_tools.report.sameness import first_difference, untimed

LINE = {"step": 1, "time": 7.5, "time/env": 2.0, "env/success_once": 0.25, "env/return": None}
FAST = {**LINE, "time": 9.0, "time/env": 1.0, "rollout/env_steps_per_second": 300.0}


def test_times_do_not_count():
    assert untimed([FAST]) == [{"step": 1, "env/success_once": 0.25, "env/return": None}]
    assert first_difference([LINE, LINE], [FAST, LINE]) is None
    assert first_difference([], []) is None


def test_the_first_difference_is_named():
    second = {**LINE, "step": 2}
    for first, other, words in (
        ([LINE, second], [FAST, {**second, "env/success_once": 0.26}], "2 success_once 0.25 0.26"),
        ([LINE], [{**LINE, "env/return": 1.0}], "step 1 env/return 1.0"),
        ([LINE], [{**LINE, "eval/n": 3}], "step 1 eval/n 3"),
        ([LINE], [LINE, second], "second step 2"),
        ([LINE], [], "first step 1"),
    ):
        found = first_difference(first, other)
        assert found is not None and all(word in found for word in words.split()), found
