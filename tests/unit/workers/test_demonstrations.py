"""Demonstrations of an env worker: all stages play, and the stage does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_settings import ToyEnvConfig

from rlcore.config.schema import CollectConfig
from rlcore.contracts.specs import Episode
from rlcore.workers.env_worker import EnvSide, EnvWorker, EnvWorkerSettings

COLLECT = CollectConfig(action_noise=0.1, speed=1.0, stride=1, max_episode_steps=5)
EPISODES = [Episode(trial % 2, trial) for trial in range(5)]


def played(stages: int) -> dict[Episode, np.ndarray]:
    side = EnvSide("rlcore_testing.toy_env:make", ToyEnvConfig(env_type="toy", total_num_envs=2))
    processes = {"rank": 0, "world_size": 1, "stages": stages, "num_processes": 0}
    worker = EnvWorker(
        EnvWorkerSettings(sides={"train": side}, restarts=0, policy_timeout=5.0, **processes)
    )
    try:
        return {demo.episode: demo.actions for demo in worker.demonstrate(EPISODES, COLLECT, 0)}
    finally:
        worker.stop()


def test_every_stage_plays_its_share(monkeypatch: pytest.MonkeyPatch):
    shares = []
    demonstrate = ToyEnv.demonstrate

    def noted(self, episodes, **settings):
        shares.append(len(episodes))
        return demonstrate(self, episodes, **settings)

    monkeypatch.setattr(ToyEnv, "demonstrate", noted)
    apart = played(stages=2)
    assert shares == [3, 2]  # of five
    together = played(stages=1)
    assert apart.keys() == together.keys() == set(EPISODES)
    for episode, actions in together.items():
        np.testing.assert_array_equal(apart[episode], actions)
