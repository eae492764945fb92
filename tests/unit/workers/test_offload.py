"""An env that gives up its accelerator while an actor on the same one updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from internals import assemble, check, compose, read_metrics, train
from rlcore_testing import toy_settings
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_settings import ToyEnvConfig

from rlcore.contracts.errors import ConfigError
from rlcore.workers.env_worker import EnvSide, EnvWorker, EnvWorkerSettings

TOY = [
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "cluster.backend=local",
    "runner.logger.experiment_name=run",
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of envs, in order."""
    made: list[str] = []
    for name in ("suspend", "resume", "reset"):
        method = getattr(ToyEnv, name)

        def noted(self, *args, name=name, method=method, **more):
            made.append(name)
            return method(self, *args, **more)

        monkeypatch.setattr(ToyEnv, name, noted)
    return made


def metrics(logs: Path) -> list[dict[str, float | None]]:
    """Return the metrics of a run's updates, but for times."""
    return [
        {name: value for name, value in line.items() if "time" not in name and "second" not in name}
        for line in read_metrics(logs / "run/metrics.jsonl")
    ]


def worker(*, offload: bool, beside_actor: bool) -> EnvWorker:
    config = ToyEnvConfig(env_type="toy", enable_offload=offload)
    return EnvWorker(
        EnvWorkerSettings(
            sides={"train": EnvSide("rlcore_testing.toy_env:make", config)},
            rank=0,
            world_size=1,
            stages=2,
            num_processes=1,
            restarts=0,
            policy_timeout=5.0,
            beside_actor=beside_actor,
        )
    )


def test_each_stage_is_suspended_once_and_resumed_by_the_next_start(calls):
    env_worker = worker(offload=True, beside_actor=True)
    env_worker.suspend()  # nothing is built yet
    env_worker.start("train")
    env_worker.suspend()
    assert calls == ["suspend"] * 2
    env_worker.start("train")
    env_worker.start("train")
    assert calls == ["suspend"] * 2 + ["resume"] * 2


@pytest.mark.parametrize(("offload", "beside_actor"), [(False, True), (True, False)])
def test_an_env_is_suspended_only_on_request_and_beside_an_actor(calls, offload, beside_actor):
    env_worker = worker(offload=offload, beside_actor=beside_actor)
    env_worker.start("train")
    env_worker.suspend()
    assert calls == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the toy draws a position of NaN
def test_the_toy_env_cannot_be_played_while_it_is_suspended():
    env = ToyEnv(ToyEnvConfig(env_type="toy"), 2)
    start, _ = env.reset(seed=0)
    still = np.zeros((2, 1, 2), dtype=np.float32)
    for _ in range(2):
        env.suspend()
    assert np.isnan(env.chunk_step(still).observation["states"]).any()
    for _ in range(2):
        env.resume()
    np.testing.assert_array_equal(env.chunk_step(still).observation["states"], start["states"])


def test_suspending_before_each_update_changes_no_result(tmp_path: Path, calls: list[str]) -> None:
    words = [*TOY, "runner.max_epochs=2", "runner.val_before_train=false"]
    words += [
        "env.eval.trials_per_task=2",
        "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    ]
    plain = train(assemble(compose([*words, f"runner.logger.log_path={tmp_path / 'plain'}"])))
    assert "suspend" not in calls
    calls.clear()
    words.append("env.train.enable_offload=true")
    offloaded = train(
        assemble(compose([*words, f"runner.logger.log_path={tmp_path / 'offloaded'}"]))
    )
    asked = [name for name in calls if name != "reset"]
    # two updates; what follows the second is an evaluation, on simulators of its own
    assert asked == ["suspend", "resume", "suspend"]
    assert offloaded["success_after"] == plain["success_after"]
    assert metrics(tmp_path / "offloaded") == metrics(tmp_path / "plain")


def test_an_env_that_cannot_be_suspended_is_refused(
    refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = toy_settings.env_spec
    monkeypatch.setattr(
        toy_settings, "env_spec", lambda config: replace(spec(config), suspends=False)
    )
    with refused(ConfigError, "env.eval.enable_offload"):
        check(compose([*TOY, "env.eval.enable_offload=true"]))
