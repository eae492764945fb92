"""The whole loop in one file and one process: env, policy, rollout, update, again.

    python examples/minimal.py [key=value ...]

These are the parts that `rlcore train` works with, in its order, and it comes to the same numbers.
What a run has besides: workers on several machines, evaluations, checkpoints, plugins, a report.
Needs `pip install 'rlcore[ppo]' --find-links dist`. Letters of shapes: B rows, C actions a
decision, A entries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rlcore.api import compose
from rlcore.config.schema import RunConfig
from rlcore.contracts.protocols import Algorithm, Env, Policy, take_rows
from rlcore.contracts.rng import RowKeys, generator
from rlcore.contracts.specs import Kind
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.update import Learner
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore.rollout.builder import TrajectoryBuilder
from rlcore.rollout.messages import ChunkOutcome, WaitingRow
from rlcore.rollout.schedule import Column, training_columns

UPDATES = 30
SETTINGS = [
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "cluster.backend=local",
    "env.train.total_num_envs=128",
    "algorithm.update_epoch=4",
    "actor.model.init_std=0.5",
    "actor.optim.lr=1e-3",
    "actor.micro_batch_size=128",
    "actor.global_batch_size=256",
]


def train(config: RunConfig, updates: int = UPDATES) -> list[float]:
    """Rollouts and updates; returns the success rate of each rollout."""
    side, model, seed = config.env.train, config.actor.model, config.runner.seed
    torch.manual_seed(int(generator(seed, "weights").integers(2**31)))  # the policy's first ones
    env: Env = factory("env", side.env_type)(
        side, num_envs=side.total_num_envs, rank=0, world_size=1, num_processes=1
    )
    policy: Policy = factory("model", model.model_type)(model, env_spec=env.spec)
    algorithm: Algorithm = factory("algorithm", config.algorithm.name)(config.algorithm)
    learner = Learner(policy, algorithm, config.actor, config.algorithm, seed=seed)
    successes = []
    for update in range(updates):
        columns = training_columns(  # which task and which start each row plays
            env.spec,
            side,
            seed=seed,
            update=update,
            num_action_chunks=policy.spec.num_action_chunks,
        )
        trajectory, success = rollout(env, policy, columns, seed=seed, update=update)
        metrics = learner.update(trajectory, update)
        successes.append(float(success.mean()))
        kl = metrics["train/actor/approx_kl"]
        print(f"update {update + 1}: success {successes[-1]:.2f}, KL {kl:.4f}")
    env.close()
    return successes


def rollout(
    env: Env, policy: Policy, columns: Sequence[Column], *, seed: int, update: int
) -> tuple[Trajectory, np.ndarray]:
    """Play one episode a row until all have ended; the trajectory, and success bool `[B]`."""
    episodes = [column.episodes[0] for column in columns]
    builder = TrajectoryBuilder(version=update)
    observation, _ = env.reset(options={"episodes": episodes})
    success = np.zeros(len(columns), dtype=bool)
    acting, decision = list(range(len(columns))), 0
    while acting:
        playing = [episodes[row] for row in acting]
        # randomness is keyed by what is sampled: this decision of this episode
        keys = RowKeys(
            tuple((seed, "train", update, e.task, e.trial, e.replica, decision) for e in playing)
        )
        inputs = policy.prepare(take_rows(observation, acting))
        output = policy.act(inputs, keys)
        rows = [WaitingRow(row, episodes[row], 0, decision) for row in acting]
        builder.add_decisions(rows, inputs, output)
        actions = np.zeros((len(columns), *output.actions.shape[1:]), dtype=np.float32)  # [B, C, A]
        actions[acting] = output.actions
        result = env.chunk_step(actions)
        builder.add_outcome(
            ChunkOutcome(
                columns=acting,
                rewards=result.rewards[acting],
                valid=result.valid[acting],
                terminated=result.terminated[acting],
                truncated=result.truncated[acting],
                success=result.success[acting],
            )
        )
        success |= result.success
        ended = (result.terminated | result.truncated).any(axis=1)
        acting, decision = [row for row in acting if not ended[row]], decision + 1
        observation = result.observation
    return builder.build(), success


def factory(kind: Kind, name: str) -> Callable[..., Any]:
    """What makes a part that some plugin brings."""
    factory: Callable[..., Any] = load_target(load_plugins().get(kind, name).spec.target)
    return factory


if __name__ == "__main__":
    train(compose(*SETTINGS, *sys.argv[1:]))
