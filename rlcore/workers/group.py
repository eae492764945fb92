"""Handle the workers of a run as one object: start, connect, call and stop them.

All backends run the same worker classes. A caller can't tell which one it has:

    local   all workers in this process, conversations interleaved: pdb works, starts at once
            (rlcore.workers.local_group)
    others  a process per worker, conversations over a channel (rlcore.workers.backend)

One update, where rollout and actor are one process, and where they are not:

    fused      converse ------------> update ------>
    separate   converse -> hand_over -> update -> sync ->
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rlcore.config.schema import CollectConfig, SFTConfig
from rlcore.contracts.errors import WorkerError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import Episode
from rlcore.numerics.mkl import BatchInvariance, choose_for_workers, local_processor
from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import InteractJob, InteractReport, RolloutJob, RolloutResult
from rlcore.terminal.text import some
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.worker_specs import OnCount, Part, WorkerSpecs

BUCKET_BYTES = 64 * 2**20


class WorkerGroup(ABC):
    """What the loops see of the workers. A backend says how they are started, called, brought to
    talk and stopped; the rest is the same for all."""

    def __init__(self, worker_specs: WorkerSpecs) -> None:
        self._worker_specs = worker_specs
        self._timeouts = worker_specs.cluster.timeouts
        self.kernels = choose_for_workers([local_processor()], worker_specs.begun)
        """What the workers compute with; a backend that spans machines settles it anew."""
        self.routes: tuple[WeightRoute, ...] = worker_specs.routes
        """How weights get to rollout workers of their own; a backend says what it can do."""

    # -- a backend's part ---------------------------------------------------------------------

    @abstractmethod
    def ranks(self, component: str) -> int:
        """Count the workers of a component that jobs must be made for."""

    @abstractmethod
    def _launch(self) -> None:
        """Bring all workers up; on failure none is left behind."""

    @abstractmethod
    def _call(
        self,
        component: str,
        method: str,
        per_rank: Sequence[Mapping[str, Any]],
        on_count: OnCount | None = None,
    ) -> list[Any]:
        """Call a method of the first workers of a component, one for each entry of `per_rank`.
        With `on_count`, the method takes an `on_progress` and what it says there arrives here."""

    @abstractmethod
    def _talk(self, parts: Sequence[Part], on_count: OnCount | None = None) -> list[Any]:
        """Let workers have a conversation; the results of their parts."""

    @abstractmethod
    def stop(self, graceful: bool = True) -> None:
        """Stop everything that was started; safe to call twice.

        Args:
            graceful: give workers time to stop by themselves.
        """

    # -- the same for all ---------------------------------------------------------------------

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(graceful=error is None)

    def start(self) -> None:
        """Bring all workers up, all policies with the weights of the actor; on failure none is
        left behind."""
        try:
            self._launch()
            self._check_alike()
            self.sync()
        except BaseException:
            self.stop(graceful=False)
            raise

    # -- env workers

    def demonstrate(
        self, episodes: Sequence[Episode], collect: CollectConfig, seed: int
    ) -> list[Demonstration]:
        """Play expert episodes in the order asked for, spread over the env workers. As in a
        rollout, the actor leaves the accelerators that simulators share with it."""
        self._turn("rollout")
        ranks = self.ranks("env")
        shared = {"collect": collect, "seed": seed}
        shares = [{"episodes": list(episodes[rank::ranks]), **shared} for rank in range(ranks)]
        answers = self._call("env", "demonstrate", shares)
        played = {demo.episode: demo for answer in answers for demo in answer}
        return [played[episode] for episode in episodes]

    def incidents(self) -> list[str]:
        """Return failures of simulators and env workers that were recovered from and are in no
        report of episodes; one text each."""
        return [text for found in self._envs("incidents") for text in found]

    def suspend_envs(self) -> None:
        """Let env workers free the accelerators that they share with an actor."""
        self._envs("suspend")

    def release(self, side: str) -> None:
        """Close the simulators of a side."""
        self._envs("release", side=side)

    def _envs(self, method: str, **arguments: Any) -> list[Any]:
        return self._call("env", method, [arguments] * self.ranks("env"))

    # -- workers that hold a policy

    def load(self, path: Path) -> None:
        """Load a saved policy into every worker that holds one, acting or learning."""
        self._actors("load", path=str(path))
        if self._worker_specs.separate:
            self._turn("rollout")
            self._call("rollout", "load", [{"path": str(path)}] * self.ranks("rollout"))
        self._check_alike()

    def save(self, path: Path, *, trial: bool = False) -> None:
        """Save the policy that learns, see :meth:`ActorWorker.save`."""
        self._actors("save", path=str(path), trial=trial)

    def load_learner(self, path: Path) -> None:
        """Load optimizer, scheduler and counters from a checkpoint's folder."""
        self._actors("load_learner", path=str(path))

    def learner_bytes(self) -> int:
        """Return the bytes of the largest file that :meth:`save_learner` writes before the first
        update."""
        return max(self._actors("learner_bytes"))

    def try_learner(self, path: Path) -> None:
        """Read back what was just saved, see :meth:`ActorWorker.try_learner`."""
        self._actors("try_learner", path=str(path))

    def save_learner(self, path: Path, known: Sequence[str] = ()) -> None:
        """Save them, see :meth:`ActorWorker.save_learner`."""
        self._actors("save_learner", path=str(path), known=known)

    def teach(self, data: str, val_fraction: float) -> None:
        """Have demonstrations among what the algorithm learns from (:meth:`ActorWorker.teach`)."""
        self._actors("teach", data=data, val_fraction=val_fraction)

    def update(
        self, update: int, lr_factors: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Make one policy update (:meth:`ActorWorker.update`); returns its metrics."""
        return dict(self._actors("update", update=update, lr_factors=lr_factors)[0])

    def remarks(self) -> list[str]:
        """Return what a user should know of the updates so far."""
        return list(self._actors("remarks")[0])

    def recall(self, path: Path) -> None:
        """Load the replay of a checkpoint's folder alone."""
        self._actors("recall", path=str(path))

    def supervised(
        self, data: str, sft: SFTConfig, on_count: OnCount, more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Train on demonstrations; returns the history.

        Args:
            more: further arguments of :meth:`ActorWorker.supervised`, of a control.
        """
        told = {"data": data, "sft": sft, **(more or {})}
        return dict(self._actors("supervised", on_count, **told)[0])

    def version(self) -> int:
        """Count how often the weights that learn were changed."""
        return int(self._call("actor", "version", [{}])[0])

    def _actors(self, method: str, on_count: OnCount | None = None, **arguments: Any) -> list[Any]:
        """Ask every worker that learns the same; answers by rank."""
        self._turn("actor")
        return self._call("actor", method, [arguments] * self.ranks("actor"), on_count)

    def _check_alike(self) -> None:
        """Refuse workers that loaded or drew unlike policies: they would train a mixture.

        Raises:
            WorkerError: names them, and what differs.
        """
        held: dict[str, dict[str, str]] = {}
        components = {
            role: role.partition("+")[0] for role in self._worker_specs.members if role != "env"
        }
        if sum(map(self.ranks, components.values())) < 2:
            return
        for role, component in components.items():
            asked = self._call(component, "checksums", [{}] * self.ranks(component))
            held |= {self._worker_specs.worker_name(role, n): sums for n, sums in enumerate(asked)}
        (name, first), *others = held.items()
        differ = sorted({key for _, sums in others for key, _ in first.items() ^ sums.items()})
        if differ:
            unlike = ", ".join(other for other, sums in others if sums != first)
            raise WorkerError(
                f"{name} and {unlike} hold unlike policies: {len(differ)} of {len(first)} "
                "parameters, buffers and files beside them differ: "
                f"{some(differ)}",
                hint="give actor.model.model_path and lora_path the same content on all nodes; "
                "without them, the model must draw its weights from torch's own generator alone",
            )

    def batch_invariance(self, forward_batch: int | None) -> list[BatchInvariance]:
        """Check batch invariance on every worker that holds a policy, those that act first; empty
        if no worker does."""
        acting, learning = self.ranks("rollout"), self.ranks("actor")
        if not acting:
            return []
        self._turn("rollout")
        check, alone = "check_batch_invariance", {"forward_batch": None}
        found = self._call("rollout", check, [{"forward_batch": forward_batch}] * acting)
        if self._worker_specs.separate:
            self._turn("actor")
            found += self._call("actor", check, [alone] * learning)
        return found

    def converse(
        self,
        interact: Sequence[InteractJob],
        rollout: Sequence[RolloutJob],
        on_count: OnCount | None = None,
    ) -> tuple[list[InteractReport], list[RolloutResult]]:
        """Let env workers and rollout workers play: one job per rank each."""
        due = self.version() if self._worker_specs.separate else None
        self._turn("rollout")
        parts = [
            Part("env", rank, "converse", {"job": job}, env_ranks=(rank,))
            for rank, job in enumerate(interact)
        ]
        for rank, job in enumerate(rollout):
            answered = {route.env_rank for route in job.routes}
            job = replace(job, weights=due)
            parts.append(Part("rollout", rank, "converse", {"job": job}, env_ranks=answered))
        results = self._talk(parts, on_count)
        return results[: len(interact)], results[len(interact) :]

    def hand_over(self) -> None:
        """Let the trajectory go from the workers that gathered it to those that learn from it.
        Where these are the same it is there already."""
        if not self._worker_specs.separate:
            return
        rollouts, actors = range(self.ranks("rollout")), range(self.ranks("actor"))
        parts = []
        for rank in rollouts:
            keys = [_pieces(rank, actor) for actor in actors]
            parts.append(Part("rollout", rank, "hand_over", {"keys": keys}))
        for rank in actors:
            keys = [_pieces(rollout, rank) for rollout in rollouts]
            told = {"keys": keys, "timeout": self._timeouts.sync}
            parts.append(Part("actor", rank, "take_over", told))
        self._talk(parts)

    def sync(self) -> None:
        """Give the actor's weights to all workers that act; needed after each change of them.
        Where they are the same weights there is nothing to do."""
        if not self._worker_specs.separate:
            return
        self._turn("actor")  # who receives can do so on the host
        shared = {"timeout": self._timeouts.sync, "bucket": self._bucket()}
        parts = [
            Part("actor", rank, "publish", {"routes": self._routes_from("actor", rank), **shared})
            for rank in range(self.ranks("actor"))
        ]
        for rank in range(self.ranks("rollout")):
            ending = [route for route in self.routes if rank in route.readers]
            # who hands weights on gets them first
            waits = any(route.is_relay for route in ending)
            mine = {
                "rank": rank,
                "routes": ending,
                "hands_on": self._routes_from("rollout", rank),
                "patience": self._timeouts.update if waits else self._timeouts.sync,
            }
            parts.append(Part("rollout", rank, "pull", {**mine, **shared}))
        self._talk(parts)

    def weight_sync(self) -> list[str]:
        """Say over what weights go from actor to rollout workers: ways of
        :mod:`rlcore.placement.routes`; empty where they don't."""
        return (
            sorted({route.transport for route in self.routes})
            if self._worker_specs.separate
            else []
        )

    def _routes_from(self, component: str, rank: int) -> list[WeightRoute]:
        return [route for route in self.routes if route.sender == (component, rank)]

    def _bucket(self) -> int:
        """Return bytes of weights in one message, at most."""
        return BUCKET_BYTES

    def _turn(self, component: str) -> None:
        """Offload the other role before this one computes, where they share accelerators and the
        settings say so. A worker moves back by itself when it is asked to compute."""
        other = "actor" if component == "rollout" else "rollout"
        if other == "rollout" and not self._worker_specs.separate:
            return
        policies = [member.settings for member in self._worker_specs.of(other)]
        if any(isinstance(one, PolicyWorkerSettings) and one.offload for one in policies):
            self._call(other, "suspend", [{}] * self.ranks(other))


def _pieces(rollout_rank: int, actor_rank: int) -> str:
    """Return the key of the queue for pieces of a trajectory."""
    return f"trajectory/{rollout_rank}/{actor_rank}"
