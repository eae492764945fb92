"""A suite really played on two processes: every pair once, and a process takes up few tasks."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from internals import evaluation_columns
from libero_cases import needs_libero, small_config
from rlcore_env_libero.env import make_env

from rlcore.rollout.messages import InteractJob
from rlcore.workers.checked_env import CheckedEnv
from rlcore.workers.restarting_env import RestartingEnv
from rlcore.workers.stage import StagePlayer

ROWS, PROCESSES, TRIALS = 4, 2, 5


@needs_libero
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_tasks_of_five_trials_are_played_once_each_on_two_processes() -> None:
    """Without a policy: the arm stands still."""
    config = small_config(tasks=None, settle_steps=0, max_episode_steps=4, simulator_timeout=1200.0)
    config.trials_per_task = TRIALS

    def make() -> object:
        return make_env(config, num_envs=ROWS, rank=0, world_size=1, num_processes=PROCESSES)

    env = CheckedEnv(RestartingEnv(make, restarts=0), num_envs=ROWS)  # type: ignore[arg-type]
    columns = tuple(evaluation_columns(env.spec, config))
    job = InteractJob("eval", (columns,), chunks_per_column=None, bootstrap=False)
    player = StagePlayer(env, columns, job)
    played: Counter[tuple[int, int]] = Counter()
    taken_up: defaultdict[int, set[int]] = defaultdict(set)
    (message,) = player.start().values()
    while message.observation is not None:
        for row, host in enumerate(env.hosts):
            if player._rows[row] is not None:
                taken_up[host].add(player._rows[row].episode.task)
        still = np.zeros((len(message.columns), 2, 7), dtype=np.float32)
        (message,) = player.advance(still).values()
        played.update((done.episode.task, done.episode.trial) for done in message.finished)
    env.close()
    assert len(played) == 10 * TRIALS and set(played.values()) == {1}
    # each process would take up all ten if rows went through them in order
    assert sum(map(len, taken_up.values())) <= 12, dict(taken_up)
