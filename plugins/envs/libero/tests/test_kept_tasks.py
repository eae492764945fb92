"""Which tasks a process keeps compiled: those in use, and of the others those played last."""

from __future__ import annotations

import numpy as np
import pytest
from libero_cases import MILK, SOUP, needs_libero, small_config
from rlcore_env_libero import pool as pools
from rlcore_stand_ins.libero.pool import make_pool

from rlcore.contracts.specs import Episode

pytestmark = needs_libero


@pytest.mark.long
def test_a_task_stays_compiled_while_it_is_among_those_played_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    compile_task = pools.Scenes._compile

    def counting(self: pools.Scenes, task: str) -> object:
        compiled.append(task)
        return compile_task(self, task)

    monkeypatch.setattr(pools.Scenes, "_compile", counting)
    pool = make_pool(small_config(tasks=[SOUP, MILK], cached_tasks=1))

    def play(task: int) -> np.ndarray:
        simulator = pool.take(task)
        simulator.start(Episode(task, 0))
        frames = {name: np.zeros((32, 32, 3), dtype=np.uint8) for name in ("agentview", "wrist")}
        simulator.draw(frames)
        pool.give_back(simulator)
        return np.concatenate([frames["agentview"], frames["wrist"]])

    first = play(0)
    np.testing.assert_array_equal(play(0), first)
    assert compiled == [SOUP]
    in_use = pool.take(1)  # does not count among those kept: it is in use
    np.testing.assert_array_equal(play(0), first)
    assert compiled == [SOUP, MILK]
    pool.give_back(in_use)  # played last: the other one goes
    second = play(1)
    assert compiled == [SOUP, MILK]
    np.testing.assert_array_equal(play(0), first)
    assert compiled == [SOUP, MILK, SOUP]
    assert not np.array_equal(first, second)
    renderers = in_use._renderers
    assert renderers._renderers.keys() == {SOUP}
    pool.close()
    assert not renderers._renderers
