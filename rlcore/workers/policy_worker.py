"""The fused rollout and actor worker: one set of weights that acts and is trained.

    consumes   obs/RANK/STAGE, produces act/RANK/STAGE (see rlcore.rollout.collect)
    keeps      the trajectory between `converse` and `update`; it never travels

Knows no simulator. The tensor library is imported where a method needs it, so that this module
can be named by a process that has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import ActorConfig, AlgorithmConfig, SFTConfig
from rlcore.errors import WorkerError
from rlcore.plugins import load_target
from rlcore.rollout.messages import Conversation, EpisodeOutcome
from rlcore.specs import EnvSpec, PolicySpec

if TYPE_CHECKING:
    from rlcore.learner.update import Learner
    from rlcore.protocols import Policy
    from rlcore.rollout.collect import CollectJob
    from rlcore.rollout.trajectory import Trajectory


@dataclass(frozen=True)
class PolicyWorkerSettings:
    """What a policy worker is made of.

    Attributes:
        policy_target, algorithm_target: factories, `"module:attr"`; no algorithm ("") where the
            policy is evaluated only.
        actor, algorithm: their settings.
        env_spec: what the policy will see.
        seed: root seed.
        threads: torch threads of this process.
    """

    policy_target: str
    algorithm_target: str
    actor: ActorConfig
    algorithm: AlgorithmConfig
    env_spec: EnvSpec
    seed: int
    threads: int


@dataclass(frozen=True)
class CollectSummary:
    """A rollout without its trajectory: outcomes, seconds by phase, metrics of the batch."""

    outcomes: list[EpisodeOutcome]
    seconds: dict[str, float]


class PolicyWorker:
    """Acts, learns from demonstrations, and learns from its own episodes."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        self._settings = settings
        self._policy: Policy | None = None
        self._learner: Learner | None = None
        self._trajectory: Trajectory | None = None

    def start(self) -> PolicySpec:
        """Build the policy (idempotent): from its checkpoint, or with keyed random weights."""
        if self._policy is None:
            # Threads that wait must not spin: simulators share these cores. Read by the OpenMP
            # runtime when the tensor library loads it, so set before.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            import torch

            from rlcore.rollout.rng import generator

            # Ray sets OMP_NUM_THREADS for its workers; what was planned must hold
            torch.set_num_threads(self._settings.threads)
            torch.manual_seed(int(generator(self._settings.seed, "weights").integers(2**31)))
            policy = load_target(self._settings.policy_target)(
                self._settings.actor.model, env_spec=self._settings.env_spec
            )
            self._policy = policy.to("cuda" if torch.cuda.is_available() else "cpu")
        return self.policy.spec

    @property
    def policy(self) -> Policy:
        if self._policy is None:
            raise WorkerError("the policy worker was asked to work before it was started")
        return self._policy

    @property
    def learner(self) -> Learner:
        """Built when first needed, so that an evaluation holds no optimizer."""
        if self._learner is None:
            from rlcore.learner.update import Learner

            algorithm = load_target(self._settings.algorithm_target)(self._settings.algorithm)
            self._learner = Learner(
                self.policy,
                algorithm,
                self._settings.actor,
                self._settings.algorithm,
                seed=self._settings.seed,
            )
        return self._learner

    def rendezvous(self) -> str:
        """Where the policy ranks meet: `tcp://ADDRESS:PORT`, free on rank 0's host now."""
        import socket

        import ray

        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        # what the other nodes know this one by; a host name may resolve to a loopback address
        return f"tcp://{ray.util.get_node_ip_address()}:{port}"

    def join(self, url: str, rank: int, world_size: int, timeout: float) -> None:
        """Form a process group with the other policy ranks and take rank 0's weights; a rank
        waits `timeout` seconds for the others, then and in every update."""
        from torch import nn

        from rlcore.learner.ranks import join

        assert isinstance(self.policy, nn.Module)  # as every policy is
        join(self.policy, url=url, rank=rank, world_size=world_size, timeout=timeout)

    def converse(self, job: CollectJob) -> Conversation:
        """Gather what the job says; keeps the trajectory, returns a :class:`CollectSummary`."""
        from rlcore.rollout.collect import converse

        self.policy.set_progress(job.update)
        result = yield from converse(self.policy, job)
        self._trajectory = result.trajectory
        return CollectSummary(result.outcomes, result.seconds)

    def update(self, update: int) -> dict[str, float]:
        """One policy update from the kept trajectory, which is given up; returns metrics."""
        if self._trajectory is None:
            raise WorkerError("asked to update without a trajectory")
        trajectory, self._trajectory = self._trajectory, None
        return self.learner.update(trajectory, update)

    def supervised(
        self,
        data: str,
        sft: SFTConfig,
        *,
        continue_seconds: float | None = None,
        on_progress: Callable[[int, int, dict[str, float]], None] | None = None,
    ) -> dict[str, Any]:
        """Train on the demonstrations in `data`; returns the history.

        Args:
            continue_seconds: go on from the present weights for this long (the control),
                instead of `sft.max_steps` steps from the start.
        """
        from rlcore.learner.demonstrations import fit_demonstrations

        return fit_demonstrations(
            self.policy,
            Path(data),
            sft,
            seed=self._settings.seed,
            continue_seconds=continue_seconds,
            on_progress=on_progress,
        )

    def save(self, path: str) -> None:
        """The policy alone, loadable as `actor.model.model_path`."""
        from rlcore.track.checkpoint import writing

        with writing(Path(path)):
            self.policy.save_pretrained(Path(path))

    def save_learner(self, path: str) -> None:
        """Optimizer, scheduler and counters, into a checkpoint's folder."""
        from rlcore.track.checkpoint import write_learner, writing

        with writing(Path(path)):
            write_learner(Path(path), self.learner.state_dict())

    def load_learner(self, path: str) -> None:
        """Go on from what :meth:`save_learner` wrote."""
        from rlcore.track.checkpoint import read_learner

        self.learner.load_state_dict(read_learner(Path(path)))

    def load(self, path: str) -> None:
        """Replace the weights by those of a saved policy; the optimizer starts afresh."""
        from dataclasses import replace

        model = replace(self._settings.actor.model, model_path=path)
        policy = load_target(self._settings.policy_target)(model, env_spec=self._settings.env_spec)
        device = next(iter(self.policy.parameter_groups()["policy"])).device
        self._policy = policy.to(device)
        self._learner = None

    def stop(self) -> None:
        """Nothing outlives the process."""
