"""The benchmark of evaluations plays the same episodes in both ways."""

from __future__ import annotations

import pytest

pytest.importorskip("rlcore_env_libero")
pytest.importorskip("rlcore_testing")
libero_cases = pytest.importorskip("libero_cases")


@libero_cases.needs_libero
@pytest.mark.long
def test_both_loops_play_the_same_episodes(figures_of):
    figures = figures_of("eval_libero", "--quick", "--stand-ins")
    ours, peer = figures["ours"], figures["peer"]
    # one task, two trials, ten steps: none succeeds so soon
    assert ours["starts"] == peer["starts"]
    (task, first), (same_task, second) = ours["starts"]
    assert task == same_task and first != second
    assert ours["env_steps"] == peer["env_steps"] == 20
