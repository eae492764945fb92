"""The components of a ManiSkill rollout standing alone, in wall seconds, on the device of the run.

    bound = env_steps / (episodes * reset + env_steps * step + decisions * (frame + row))

One device simulates, renders and acts in turns, so their times add up. Simulation is ManiSkill's
own env without rlcore's rows and without copies to the host; the policy runs at the batch that
suits it best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from rlcore_env_maniskill.actions import ActionScale
from rlcore_env_maniskill.raw import capture, make_raw, prepare_frames
from rlcore_env_maniskill.settings import ManiSkillConfig

from parts.phases import synchronize
from rlcore.contracts.protocols import Observation, Policy, take_rows
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec

REPEATS = 3  # of each batch size, after one to warm up


@dataclass(frozen=True)
class Work:
    """What a rollout did: how often it needed each component."""

    env_steps: int
    episodes: int
    decisions: int


@dataclass(frozen=True)
class Simulation:
    """Seconds of one use of each part of the simulation, for a row of the batch.

    Attributes:
        rows: scenes of the batch; 1 where ManiSkill has none.
        reset: a start, nothing drawn.
        step: a control step with its reward, nothing drawn.
        frame: the frames of all cameras.
    """

    rows: int
    reset: float
    step: float
    frame: float

    def seconds(self, work: Work) -> float:
        """All that the work needs of it."""
        return work.episodes * self.reset + work.env_steps * self.step + work.decisions * self.frame


@dataclass(frozen=True)
class Alone:
    """All components.

    Attributes:
        simulation: of a row.
        policy: `{batch: seconds per row}` of a decision: preparing the observation and acting.
    """

    simulation: Simulation
    policy: dict[int, float]

    @property
    def best_batch(self) -> int:
        return min(self.policy, key=lambda batch: self.policy[batch])

    def seconds(self, work: Work) -> dict[str, float]:
        """What the work needs of each."""
        return {
            "simulation": self.simulation.seconds(work),
            "policy": work.decisions * self.policy[self.best_batch],
        }


def simulation_alone(
    config: ManiSkillConfig, spec: EnvSpec, chunks: int, chunk: int, repeats: int
) -> Simulation:
    """Episodes of `chunks` chunks of random actions, a frame a chunk; medians over `repeats`, after
    one to warm up."""
    rows = config.total_num_envs if config.sim_backend == "gpu" else 1
    raw = make_raw(config, spec.tasks[0], num_envs=rows)
    scale = ActionScale(config, spec.tasks[0])
    low = np.concatenate([np.full(c.size, c.low) for c in spec.actions])
    high = np.concatenate([np.full(c.size, c.high) for c in spec.actions])
    random = np.random.default_rng(0)
    found = []
    try:
        for repeat in range(repeats + 1):
            drawn = random.uniform(low, high, (chunks * chunk, rows, spec.action_dim))
            actions = torch.as_tensor(scale.to_robot(drawn), device=raw.device)
            seeds = [repeat * rows + row for row in range(rows)]
            reset, step, frame = _took(lambda s: raw.reset(seed=s, options={}), seeds), 0.0, 0.0
            cameras = prepare_frames(raw, config)
            for number in range(chunks):
                frame += _took(capture, raw, cameras)
                for action in actions[number * chunk : (number + 1) * chunk]:
                    step += _took(raw.step, action)
            found.append((reset / rows, step / len(actions) / rows, frame / chunks / rows))
    finally:
        raw.close()
    reset, step, frame = (median(parts) for parts in zip(*found[1:], strict=True))
    return Simulation(rows, reset, step, frame)


def policy_alone(
    policy: Policy, seen: Observation, batches: Sequence[int], seed: int
) -> dict[int, float]:
    """Seconds per row of a decision at each batch, on rows that the policy saw."""
    found = {}
    for batch in batches:
        observation = take_rows(seen, np.arange(batch) % len(seen["states"]))
        keys = RowKeys(tuple((seed, "alone", row) for row in range(batch)))
        spent = [_took(_decide, policy, observation, keys) for _ in range(REPEATS + 1)]
        found[batch] = median(spent[1:]) / batch
    return found


def _decide(policy: Policy, observation: Observation, keys: RowKeys) -> None:
    policy.act(policy.prepare(observation), keys)


def _took(work: Callable[..., object], *arguments: object) -> float:
    """Seconds of a call, the device waited for before and after."""
    synchronize()
    begin = time.perf_counter()
    work(*arguments)
    synchronize()
    return time.perf_counter() - begin
