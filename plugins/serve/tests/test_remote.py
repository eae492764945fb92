"""The loop closed: our server, our client, an evaluation under `model=remote`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from rlcore_serve.remote import make
from rlcore_serve.remote_settings import RemoteConfig
from served import TOY, serving

import rlcore
from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError, PolicyError, VerificationError
from rlcore.contracts.rng import RowKeys

EVAL = (
    "env=toy",
    "model=remote",
    "cluster.backend=local",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=3",
    "env.*.tasks=[reach-left,reach-up]",
    "runner.logger.logger_backends=[]",
    "cluster.torch_threads=1",
    "rollout.forward_batch=4",
    "actor.model.num_action_chunks=2",
    "runner.only_eval=true",
)


@pytest.mark.quick(1)
@pytest.mark.parametrize("deterministic", [True, False])
def test_the_same_episodes_succeed_as_in_process(run, policy, tmp_path, deterministic):
    flags = (
        "env.eval.trials_per_task=3",
        "env.eval.total_num_envs=4",
        f"rollout.eval_deterministic={deterministic}",
    )
    here = rlcore.evaluate(str(run), f"runner.logger.log_path={tmp_path}/a", *flags)
    with serving(policy, deterministic=deterministic, forward_batch=4, max_wait_ms=50) as server:
        there = rlcore.evaluate(
            *EVAL,
            *flags,
            f"actor.model.url={server.url}",
            f"runner.logger.log_path={tmp_path}/b",
            "runner.logger.experiment_name=run",
        )
    played = [
        [(e.task, e.trial, e.replica, e.success, e.length, e.episode_return) for e in one.episodes]
        for one in (here, there)
    ]
    assert played[0] == played[1] and len(played[0]) == 6
    manifest = tmp_path / "b" / "run" / "manifest.json"
    noted = json.loads(manifest.read_text())["policy_server"]
    assert noted["url"] == server.url and noted["says"]["policy"] == "toy"
    assert noted["says"]["deterministic"] is deterministic


@pytest.mark.long
def test_a_remote_evaluation_is_verified(run, policy, tmp_path, capsys):
    verify = ["eval", f"{tmp_path}/run", "--verify"]
    with serving(policy, deterministic=False, forward_batch=4) as server:
        rlcore.evaluate(
            *EVAL,
            f"actor.model.url={server.url}",
            f"runner.logger.log_path={tmp_path}",
            "runner.logger.experiment_name=run",
        )
        assert main(verify) == ConfigError.exit_code
        assert "RLCORE_SERVE_KEY" in capsys.readouterr().err
        assert main([*verify, "--trust"]) == 0
    with serving(policy, forward_batch=4) as server:  # acts otherwise
        assert main([*verify, f"actor.model.url={server.url}"]) == VerificationError.exit_code
    assert "of 6 episodes" in capsys.readouterr().err


def test_training_a_remote_policy_is_refused(refused):
    with refused(ConfigError, "runner.only_eval", "remote"):
        rlcore.train(*TOY, "model=remote", "actor.model.url=ws://127.0.0.1:1")


def test_actions_are_the_policys_to_the_bit(policy, observation):
    with serving(policy, deterministic=False, forward_batch=4) as server:
        remote = make(
            RemoteConfig(url=server.url, num_action_chunks=2, connections=2),
            env_spec=policy.env_spec,
        )
        keys = RowKeys((*(((7, "eval", 0, 1, 1000, 0, row)) for row in range(3)), ("pad",)))
        rows = {
            "cameras": {n: f[[0, 1, 2, 0]] for n, f in observation["cameras"].items()},
            "states": observation["states"][[0, 1, 2, 0]],
            "task_descriptions": [observation["task_descriptions"][i] for i in (0, 1, 2, 0)],
            "elapsed": np.full(4, 0.5, np.float32),
        }
        got = remote.act(remote.prepare(rows), keys).actions
    wanted = policy.select_actions(rows, keys, deterministic=False, forward_batch=4)
    assert (got[:3] == wanted[:3]).all() and (got[3] == 0).all()


def test_it_reconnects_to_a_server_that_comes_back(policy, observation):
    rows = {**observation, "elapsed": np.zeros(3, np.float32)}
    keys = RowKeys(tuple((0, "eval", 0, 0, 0, 0, row) for row in range(3)))
    with serving(policy) as server:
        port = server.port
        remote = make(
            RemoteConfig(url=server.url, num_action_chunks=2, connections=1),
            env_spec=policy.env_spec,
        )
        before = remote.act(remote.prepare(rows), keys).actions
    with serving(policy, port=port):
        assert (remote.act(remote.prepare(rows), keys).actions == before).all()


def test_a_server_that_is_not_there_is_named(policy, observation, refused):
    rows = {**observation, "elapsed": np.zeros(3, np.float32)}
    remote = make(
        RemoteConfig(url="ws://127.0.0.1:9", num_action_chunks=2, reconnect_s=0),
        env_spec=policy.env_spec,
    )
    with refused(PolicyError, "ws://127.0.0.1:9", "actor.model.reconnect_s", text=False):
        remote.act(remote.prepare(rows), RowKeys(((0,), (1,), (2,))))
    with refused(ConfigError, "actor.model.url"):
        make(RemoteConfig(num_action_chunks=2), env_spec=policy.env_spec)


def test_the_command_serves_and_ends_on_sigterm(run, policy, observation, refused):
    command = [
        sys.executable,
        "-m",
        "rlcore.cli.main",
        "serve",
        str(run),
        "serve.port=0",
        "serve.forward_batch=4",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"RLCORE_SERVE_KEY": "k"}
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.fullmatch(r"serving toy for toy at (ws://127.0.0.1:\d+)\n", line)[1]
        rows = {**observation, "elapsed": np.zeros(3, np.float32)}
        remote = make(RemoteConfig(url=url, num_action_chunks=2), env_spec=policy.env_spec)
        with refused(PolicyError, "RLCORE_SERVE_KEY", text=False):
            remote.act(remote.prepare(rows), RowKeys(((0,), (1,), (2,))))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
