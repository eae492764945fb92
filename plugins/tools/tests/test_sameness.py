"""Metrics that are the same, and where they part."""

from rlcore_tools.report.sameness import first_difference, untimed

LINE = {"step": 1, "time": 7.5, "time/env": 2.0, "env/success_once": 0.25, "env/return": None}
FAST = {**LINE, "time": 9.0, "time/env": 1.0, "rollout/env_steps_per_second": 300.0}


def test_times_do_not_count():
    assert untimed([FAST]) == [{"step": 1, "env/success_once": 0.25, "env/return": None}]
    assert first_difference([LINE, LINE], [FAST, LINE]) is None
    assert first_difference([], []) is None


def test_the_first_difference_is_named():
    other = {**LINE, "step": 2, "env/success_once": 0.25000001}
    assert first_difference([LINE, {**LINE, "step": 2}], [FAST, other]) == (
        "at step 2, env/success_once: 0.25 and 0.25000001"
    )
    assert first_difference([LINE], [{**LINE, "env/return": 1.0}]) == (
        "at step 1, env/return: not a number and 1.0"
    )
    assert first_difference([LINE], [{**LINE, "eval/n": 3}]) == "at step 1, eval/n: none and 3"
    assert first_difference([LINE], [LINE, {**LINE, "step": 2}]) == (
        "only the second continues, with step 2"
    )
    assert first_difference([LINE], []) == "only the first continues, with step 1"
