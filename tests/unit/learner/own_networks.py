"""An algorithm with a critic of its own and a replay; one rank of it, as a process of its own.

    python own_networks.py RANK SIZE URL FOLDER

trains on FOLDER/UPDATE-RANK.pt, saves, loads into a new learner and goes on; writes the weights to
FOLDER/RANK.json.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore.config.schema import ActorConfig, AlgorithmConfig, OptimConfig
from rlcore.contracts.learning import Step
from rlcore.contracts.protocols import Learning
from rlcore.contracts.specs import (
    ActionChannel,
    AlgorithmNeeds,
    EnvSpec,
    NetworkNeeds,
    ReplayNeeds,
    StateChannel,
)
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives
from rlcore.learner.update import Learner

ENV = EnvSpec(
    name="features",
    tasks=("go",),
    instructions=("go",),
    train_trials=range(9),
    heldout_trials=range(9, 18),
    cameras=(),
    states=(StateChannel("features", 4),),
    actions=(ActionChannel("ee_delta_position", 2, -1.0, 1.0),),
    max_episode_steps=18,
)
LAG = 0.25
LR = 0.01


class OwnCritic:
    """Learns values by n-step targets from a lagged copy; the policy imitates what was better than
    the critic expected: exp(advantage), as in advantage-weighted regression."""

    def __init__(self, *, critic_steps: int = 2, names: tuple[str, ...] = ("value_of",)) -> None:
        self.critic_steps = critic_steps
        self.names = names
        self.needs = AlgorithmNeeds(
            exact_logprobs=False,
            networks=(NetworkNeeds("value_of", lr=LR, polyak=LAG),),
            replay=ReplayNeeds(10**6),
            imitation=True,
        )

    def networks(self, policy: Any, inputs: dict[str, np.ndarray]) -> dict[str, nn.Module]:
        width = inputs["features"].shape[1]
        return {name: nn.Linear(width, 1) for name in self.names}

    def updates(self, learning: Learning) -> Iterator[Step]:
        replay = learning.replay
        value_of = learning.networks["value_of"]

        def targets(rows: torch.Tensor) -> torch.Tensor:
            then = replay.n_step_targets(rows, chunks=2, gamma=0.9)
            with torch.no_grad():
                after = learning.target_networks["value_of"](then.inputs["features"]).squeeze(1)
            return then.rewards + then.discounts * after

        def critic(rows: torch.Tensor, keys: Any) -> Any:
            error = targets(rows) - value_of(replay.inputs(rows)["features"]).squeeze(1)
            return error.square(), {}

        def actor(rows: torch.Tensor, keys: Any) -> Any:
            better = targets(rows) - value_of(replay.inputs(rows)["features"]).squeeze(1)
            return better.clamp(max=1.0).exp() * learning.imitation_loss(rows, keys), {}

        for _ in range(self.critic_steps):
            yield learning.step(learning.sample(16), critic, trains=["value_of"])
        yield learning.step(learning.sample(16), actor, trains=["policy"])


def bench() -> Any:
    """Return conftest.py as a module."""
    source = importlib.util.spec_from_file_location("bench", Path(__file__).parent / "conftest.py")
    assert source is not None and source.loader is not None
    parts = importlib.util.module_from_spec(source)
    sys.modules["bench"] = parts
    source.loader.exec_module(parts)
    return parts


def made(
    algorithm: OwnCritic | None = None, *, seed: int = 0, **optim: float
) -> tuple[Learner, Any]:
    """A learner and its policy, which sees features; `optim` are keys of `actor.optim`."""
    policy = bench().LinearPolicy(value_width=0)
    policy.prepare = lambda observation: {"features": observation["states"]}
    settings = OptimConfig(**{"lr": 1e-2, "adam_eps": 1e-4, **optim})
    actor = ActorConfig(optim=settings, global_batch_size=16, micro_batch_size=4)
    algorithm = algorithm or OwnCritic()
    return Learner(
        policy, algorithm, actor, AlgorithmConfig(name="own"), seed=seed, env=ENV
    ), policy


def weights(learner: Learner, policy: nn.Module) -> list[list[float]]:
    """Return the numbers of the policy and of all that the learner holds."""
    tensors = [*policy.parameters(), *learner.tensors()]
    return [tensor.detach().flatten().tolist() for tensor in tensors]


def networks(learner: Learner, kind: str = "live") -> dict[str, torch.Tensor]:
    """Return copies of the tensors of the networks (`live`) or of their targets (`lagged`)."""
    prefix = f"networks.{kind}."
    tensors = learner.state_dict()["tensors"]
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def main(rank: int, size: int, url: str, folder: Path) -> None:
    """Train as rank `rank` of `size`."""
    torch.set_num_threads(1)
    learner, policy = made()
    collectives.join_process_group(
        torch.device("cpu"), url=url, rank=rank, world_size=size, timeout=300.0
    )
    for update in range(3):
        mine = folder / f"{update}-{rank}.pt"
        metrics = learner.update(Trajectory(**torch.load(mine)) if mine.is_file() else None, update)
        if update == 1:  # go on from files
            saved = learner.state_dict()
            state = learner.save_replay(folder, known=())
            torch.distributed.barrier()
            learner, again = made()
            again.load_state_dict(policy.state_dict())
            policy = again
            saved = {"tensors": saved["tensors"], "state": saved["state"]}
            everyone = collectives.all_gather(saved)[0]
            learner.load_state_dict(everyone)
            learner.load_replay(folder, state)
    found = {"weights": weights(learner, policy), "metrics": metrics}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
