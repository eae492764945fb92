"""Play a rollout in this process, and make learners that train on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from parts.ours import training_order
from rlcore.contracts.protocols import Algorithm, Policy
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.update import Learner
from rlcore.plugins.import_target import load_target
from rlcore.training.assembly import Assembly
from rlcore.training.gather import gather
from rlcore.workers.local_group import LocalGroup
from rlcore.workers.policy_worker import PolicyWorkerSettings


@dataclass(frozen=True)
class Played:
    """A training rollout.

    Attributes:
        trajectory: its decisions.
        success: share of its episodes that succeeded.
        weights: state dict of the policy that acted.
    """

    trajectory: Trajectory
    success: float
    weights: dict[str, torch.Tensor]


def play(assembly: Assembly) -> Played:
    """Play one training rollout."""
    with LocalGroup(assembly.worker_specs) as group:
        group.start()
        outcomes = gather(group, assembly, training_order(assembly, 0)).outcomes
        (worker,) = (worker for role, worker in group._workers.items() if "actor" in role)
        weights = {name: x.clone() for name, x in worker._policy.state_dict().items()}
    success = sum(outcome.success for outcome in outcomes) / len(outcomes)
    return Played(worker._trajectory, success, weights)


def make_learner(assembly: Assembly, weights: Mapping[str, torch.Tensor]) -> tuple[Learner, Policy]:
    """Make a learner, and its policy with these weights."""
    config = assembly.config
    policy = make_policy(assembly, weights)
    learner = Learner(
        policy, make_algorithm(assembly), config.actor, config.algorithm, seed=config.runner.seed
    )
    return learner, policy


def make_policy(assembly: Assembly, weights: Mapping[str, torch.Tensor]) -> Policy:
    """Make the policy with these weights."""
    settings = _settings(assembly)
    policy: Any = load_target(settings.policy_target)(
        assembly.config.actor.model, env_spec=settings.env_spec
    )
    policy.load_state_dict(weights)
    policy.set_progress(0)
    made: Policy = policy
    return made


def make_algorithm(assembly: Assembly) -> Algorithm:
    """Make the algorithm."""
    made: Algorithm = load_target(_settings(assembly).algorithm_target)(assembly.config.algorithm)
    return made


def _settings(assembly: Assembly) -> PolicyWorkerSettings:
    settings = assembly.worker_specs.members_of("actor")[0].settings
    assert isinstance(settings, PolicyWorkerSettings)
    return settings
