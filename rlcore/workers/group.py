"""Handle the workers of a run as one object: start, connect, call and stop them.

All backends run the same worker classes, with the same interface to the caller:

    local   all workers in this process, with interleaved conversations; pdb works, and the start
            takes no time (rlcore.workers.local_group)
    others  a process per worker, with conversations over a channel (rlcore.workers.backend)

The calls of one update, with rollout and actor in one process (fused) or in separate ones:

    fused      converse ------------> update ------>
    separate   converse -> send_trajectory -> update -> sync ->
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from rlcore.config.schema import CollectConfig, SFTConfig
from rlcore.contracts.errors import WorkerError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import Episode
from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import InteractJob, InteractReport, RolloutJob, RolloutResult
from rlcore.utils.mkl import BatchInvariance, choose_for_workers, local_processor
from rlcore.utils.spans import Taken
from rlcore.utils.text import abbreviate_list
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.worker_specs import ConversationPart, OnCount, WorkerSpecs

BUCKET_BYTES = 64 * 2**20
"""Default size in bytes of one message of weights."""


class WorkerGroup(ABC):
    """Interface of the training loops to the workers.

    A backend implements how workers are started, called, connected and stopped.
    """

    def __init__(self, worker_specs: WorkerSpecs) -> None:
        self._worker_specs = worker_specs
        self._timeouts = worker_specs.cluster.timeouts
        self.kernels = choose_for_workers([local_processor()], worker_specs.resumed_kernels)
        """Kernels of the workers; a backend that spans machines chooses them again, for all."""
        self.routes: tuple[WeightRoute, ...] = worker_specs.routes
        """Routes of weights to separate rollout workers; a backend may replace them."""
        self._acting_version: int | None = None  # None: that of the actor's present weights

    # -- implemented by a backend -------------------------------------------------------------

    @abstractmethod
    def ranks(self, component: str) -> int:
        """Return the number of workers of a component, each of which needs one job."""

    @abstractmethod
    def _launch(self) -> None:
        """Start all workers; after a failure none is left running."""

    @abstractmethod
    def _call(
        self,
        component: str,
        method: str,
        per_rank: Sequence[Mapping[str, Any]],
        on_count: OnCount | None = None,
    ) -> list[Any]:
        """Call a method of the first workers of a component, and return the results by rank.

        Args:
            component: "env", "rollout" or "actor".
            method: name of the method.
            per_rank: keyword arguments for each rank, from rank 0.
            on_count: if given, called with the values that the method passes to its `on_progress`.
        """

    def _begin(
        self, component: str, method: str, per_rank: Sequence[Mapping[str, Any]]
    ) -> Callable[[], list[Any]]:
        """Begin a call as of :meth:`_call`, and return a function that waits for its results.

        A backend whose workers share a process makes the call only when it is waited for.
        """
        return partial(self._call, component, method, per_rank)

    @abstractmethod
    def _talk(
        self, parts: Sequence[ConversationPart], on_count: OnCount | None = None
    ) -> list[Any]:
        """Run a conversation between workers, and return the results of its parts in order.

        Args:
            parts: the conversation's parts, one per worker.
            on_count: called with running totals of the amounts that the workers count.
        """

    @abstractmethod
    def stop(self, graceful: bool = True) -> None:
        """Stop everything that was started; safe to call twice.

        Args:
            graceful: whether workers get time to stop by themselves.
        """

    # -- common to all backends ---------------------------------------------------------------

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
        """Start all workers, and sync the actor's weights to the rollout workers.

        After a failure no worker is left running.

        Raises:
            WorkerError: workers have loaded or initialised different policies.
        """
        try:
            self._launch()
            self._check_same_policies()
            self.sync()
        except BaseException:
            self.stop(graceful=False)
            raise

    def take_spans(self) -> dict[str, Taken]:
        """Return what all workers recorded since the last call, by name (`runner.trace`)."""
        spans: dict[str, Taken] = {}
        for role in self._worker_specs.members:
            component = role.partition("+")[0]
            per_rank = self._call(component, "take_spans", [{}] * self.ranks(component))
            for rank, taken in enumerate(per_rank):
                spans[self._worker_specs.worker_name(role, rank)] = taken
        return spans

    # -- env workers

    def demonstrate(
        self, episodes: Sequence[Episode], collect: CollectConfig, seed: int
    ) -> list[Demonstration]:
        """Play expert episodes, distributed over the env workers; return them in the given order.

        As in a rollout, the actor first offloads from the accelerators it shares with simulators.
        """
        self._begin_turn("rollout")
        ranks = self.ranks("env")
        shared = {"collect": collect, "seed": seed}
        shares = [{"episodes": list(episodes[rank::ranks]), **shared} for rank in range(ranks)]
        answers = self._call("env", "demonstrate", shares)
        by_episode = {demo.episode: demo for answer in answers for demo in answer}
        return [by_episode[episode] for episode in episodes]

    def incidents(self) -> list[str]:
        """Return messages of the recovered failures of simulators and env workers.

        Failures that an :class:`InteractReport` lists are not repeated.
        """
        return [text for incidents in self._call_envs("incidents") for text in incidents]

    def suspend_envs(self) -> None:
        """Free the accelerators that env workers share with an actor."""
        self._call_envs("suspend")

    def release(self, side: str) -> None:
        """Close the simulators of a side in all env workers."""
        self._call_envs("release", side=side)

    def _call_envs(self, method: str, **arguments: Any) -> list[Any]:
        return self._call("env", method, [arguments] * self.ranks("env"))

    # -- workers that hold a policy

    def load(self, path: Path) -> None:
        """Load a saved policy into all actor and rollout workers.

        Raises:
            WorkerError: the workers have loaded different policies.
        """
        self._call_actors("load", path=str(path))
        if self._worker_specs.separate:
            self._begin_turn("rollout")
            self._call("rollout", "load", [{"path": str(path)}] * self.ranks("rollout"))
        self._check_same_policies()

    def save(self, path: Path, *, trial: bool = False) -> None:
        """Save the actor's policy, see :meth:`ActorWorker.save`."""
        self._call_actors("save", path=str(path), trial=trial)

    def load_learner(self, path: Path) -> None:
        """Load the learner from a checkpoint's folder, see :meth:`ActorWorker.load_learner`."""
        self._call_actors("load_learner", path=str(path))

    def try_learner(self, path: Path) -> None:
        """Read back the learner that was just saved, see :meth:`ActorWorker.try_learner`."""
        self._call_actors("try_learner", path=str(path))

    def save_learner(self, path: Path, known: Sequence[str] = ()) -> None:
        """Save the learner into a checkpoint's folder, see :meth:`ActorWorker.save_learner`."""
        self._call_actors("save_learner", path=str(path), known=known)

    def load_demonstrations(self, data: str, val_fraction: float, reward: float) -> None:
        """Add demonstrations to the replay, see :meth:`ActorWorker.load_demonstrations`."""
        self._call_actors(
            "load_demonstrations", data=data, val_fraction=val_fraction, reward=reward
        )

    def update(
        self, update: int, lr_factors: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Make one policy update and return rank 0's metrics, see :meth:`ActorWorker.update`."""
        return dict(self._call_actors("update", update=update, lr_factors=lr_factors)[0])

    def begin_update(
        self, update: int, lr_factors: Mapping[str, float] | None = None
    ) -> Callable[[], dict[str, float]]:
        """Begin a policy update, and return a function that waits for its metrics.

        Until that function has returned, episodes are played with the weights before the update,
        and no other method that the actor answers may be called.
        """
        self._acting_version = self.version()
        self._begin_turn("actor")
        arguments = {"update": update, "lr_factors": lr_factors}
        results = self._begin("actor", "update", [arguments] * self.ranks("actor"))

        def finish() -> dict[str, float]:
            metrics = dict(results()[0])
            self._acting_version = None
            return metrics

        return finish

    def warnings(self) -> list[str]:
        """Return the learner's warnings for the user about the updates so far, of rank 0."""
        return list(self._call_actors("warnings")[0])

    def load_replay(self, path: Path) -> None:
        """Load the replay, and nothing else, from a checkpoint's folder."""
        self._call_actors("load_replay", path=str(path))

    def begin_supervised(
        self, data: str, sft: SFTConfig, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Begin supervised training, and return its history so far, of rank 0.

        Args:
            data: path of the demonstrations.
            sft: settings of supervised training.
            options: further arguments of :meth:`ActorWorker.begin_supervised`.
        """
        arguments = {"data": data, "sft": sft, **options}
        return dict(self._call_actors("begin_supervised", **arguments)[0])

    def supervised(self, until: int | None, on_count: OnCount) -> dict[str, Any]:
        """Continue supervised training, see :meth:`ActorWorker.supervised`.

        Args:
            until: number of steps at which to return; None: to the end.
            on_count: called with the progress of rank 0.

        Returns:
            The history of rank 0, with the losses since the last call alone.
        """
        return dict(self._call_actors("supervised", on_count, until=until)[0])

    def save_supervised(self, path: Path) -> None:
        """Save the state of supervised training to an empty folder, see
        :meth:`ActorWorker.save_supervised`."""
        self._call_actors("save_supervised", path=str(path))

    def end_supervised(self) -> None:
        """Free what supervised training needs besides the policy."""
        self._call_actors("end_supervised")

    def version(self) -> int:
        """Return the version of the actor's weights: the number of times they were changed."""
        return int(self._call("actor", "version", [{}])[0])

    def _call_actors(
        self, method: str, on_count: OnCount | None = None, **arguments: Any
    ) -> list[Any]:
        """Call a method of all actor workers with the same arguments; return results by rank."""
        self._begin_turn("actor")
        return self._call("actor", method, [arguments] * self.ranks("actor"), on_count)

    def _check_same_policies(self) -> None:
        """Check that all workers have loaded or initialised the same policy.

        Raises:
            WorkerError: policies differ; the message names the workers, and the parameters, buffers
                and files that differ.
        """
        checksums: dict[str, dict[str, str]] = {}  # by worker, then by parameter, buffer or file
        components = {
            role: role.partition("+")[0] for role in self._worker_specs.members if role != "env"
        }
        if sum(map(self.ranks, components.values())) < 2:
            return
        for role, component in components.items():
            per_rank = self._call(component, "checksums", [{}] * self.ranks(component))
            for rank, sums in enumerate(per_rank):
                checksums[self._worker_specs.worker_name(role, rank)] = sums
        (name, first), *others = checksums.items()
        different = sorted({key for _, sums in others for key, _ in first.items() ^ sums.items()})
        if different:
            other_names = ", ".join(other for other, sums in others if sums != first)
            raise WorkerError(
                f"{name} and {other_names} hold different policies: {len(different)} of "
                f"{len(first)} parameters, buffers and files differ: {abbreviate_list(different)}",
                hint="give actor.model.model_path and lora_path the same content on all nodes; "
                "without them, the model must draw its weights only from torch's global generator",
            )

    def batch_invariance(self, forward_batch: int | None) -> list[BatchInvariance]:
        """Check batch invariance on every worker with a policy.

        Args:
            forward_batch: fixed number of rows of the forward passes that decide; None: not fixed.

        Returns:
            results of the rollout workers by rank, then those of separate actor workers; empty if
            no worker has a policy.
        """
        rollout_ranks = self.ranks("rollout")
        if not rollout_ranks:
            return []
        method = "check_batch_invariance"
        self._begin_turn("rollout")
        results = self._call("rollout", method, [{"forward_batch": forward_batch}] * rollout_ranks)
        if self._worker_specs.separate:
            self._begin_turn("actor")
            results += self._call("actor", method, [{"forward_batch": None}] * self.ranks("actor"))
        return results

    def converse(
        self,
        interact: Sequence[InteractJob],
        rollout: Sequence[RolloutJob],
        on_count: OnCount | None = None,
    ) -> tuple[list[InteractReport], list[RolloutResult]]:
        """Play episodes with the env workers and rollout workers.

        Args:
            interact: a job for each env worker, by rank.
            rollout: a job for each rollout worker, by rank.
            on_count: called with running totals of episodes.

        Returns:
            reports of the env workers and results of the rollout workers, by rank.
        """
        version = None
        if self._worker_specs.separate:
            version = self.version() if self._acting_version is None else self._acting_version
        self._begin_turn("rollout")
        parts = [
            ConversationPart("env", rank, "converse", {"job": job}, env_ranks=(rank,))
            for rank, job in enumerate(interact)
        ]
        for rank, job in enumerate(rollout):
            env_ranks = {route.env_rank for route in job.routes}
            job = replace(job, weights=version)
            parts.append(
                ConversationPart("rollout", rank, "converse", {"job": job}, env_ranks=env_ranks)
            )
        results = self._talk(parts, on_count)
        return results[: len(interact)], results[len(interact) :]

    def send_trajectory(self) -> None:
        """Send the trajectory from the rollout workers to the actor workers; no-op if fused."""
        if not self._worker_specs.separate:
            return
        rollouts = range(self.ranks("rollout"))
        actors = range(self.ranks("actor"))
        parts = []
        for rank in rollouts:
            keys = [_trajectory_key(rank, actor) for actor in actors]
            parts.append(ConversationPart("rollout", rank, "send_trajectory", {"keys": keys}))
        for rank in actors:
            keys = [_trajectory_key(rollout, rank) for rollout in rollouts]
            arguments = {"keys": keys, "timeout": self._timeouts.sync}
            parts.append(ConversationPart("actor", rank, "receive_trajectory", arguments))
        self._talk(parts)

    def sync(self, *, keep_previous: bool = False) -> None:
        """Send the actor's weights to the rollout workers; no-op if fused.

        Needed after each change of the weights, before the next :meth:`converse`.

        Args:
            keep_previous: whether the weights that are replaced are kept for
                :meth:`save_previous_weights`.
        """
        if not self._worker_specs.separate:
            return
        self._acting_version = None
        self._begin_turn("actor")  # rollout workers can receive into offloaded weights
        shared = {"timeout": self._timeouts.sync, "bucket": self._bucket()}
        parts = [
            ConversationPart(
                "actor", rank, "publish", {"routes": self._routes_from("actor", rank), **shared}
            )
            for rank in range(self.ranks("actor"))
        ]
        for rank in range(self.ranks("rollout")):
            incoming = [route for route in self.routes if rank in route.readers]
            # a relay first receives the weights itself, so its readers wait longer
            relayed = any(route.is_relay for route in incoming)
            arguments = {
                "rank": rank,
                "routes": incoming,
                "relay_routes": self._routes_from("rollout", rank),
                "keep_previous": keep_previous and rank == 0,
                "announcement_timeout": self._timeouts.update if relayed else self._timeouts.sync,
                **shared,
            }
            parts.append(ConversationPart("rollout", rank, "pull", arguments))
        self._talk(parts)

    def save_previous_weights(self, file: Path) -> None:
        """Write the weights that the last :meth:`sync` replaced in the rollout workers."""
        self._call("rollout", "save_previous_weights", [{"file": str(file)}])

    def load_previous_weights(self, file: Path) -> None:
        """Let the rollout workers act with weights of :meth:`save_previous_weights`.

        The next :meth:`sync` replaces them by the actor's.
        """
        self._acting_version = self.version() - 1
        arguments = {"file": str(file), "version": self._acting_version}
        self._call("rollout", "load_previous_weights", [arguments] * self.ranks("rollout"))

    def weight_sync(self) -> list[str]:
        """Return the transports of the weight sync (:mod:`rlcore.placement.routes`), sorted.

        Empty if rollout and actor are fused.
        """
        if not self._worker_specs.separate:
            return []
        return sorted({route.transport for route in self.routes})

    def _routes_from(self, component: str, rank: int) -> list[WeightRoute]:
        """Return the routes of which a worker is the sender."""
        return [route for route in self.routes if route.sender == (component, rank)]

    def _bucket(self) -> int:
        """Return the maximum size in bytes of one message of weights."""
        return BUCKET_BYTES

    def _begin_turn(self, component: str) -> None:
        """Offload the other component before this one computes, if offloading is enabled.

        A worker restores its own policy when it computes next.

        Args:
            component: "rollout" or "actor", whichever computes next.
        """
        other = "actor" if component == "rollout" else "rollout"
        if other == "rollout" and not self._worker_specs.separate:
            return
        for member in self._worker_specs.members_of(other):
            if isinstance(member.settings, PolicyWorkerSettings) and member.settings.offload:
                self._call(other, "suspend", [{}] * self.ranks(other))
                return


def _trajectory_key(rollout_rank: int, actor_rank: int) -> str:
    """Return the key of the queue for a trajectory's pieces between two workers."""
    return f"trajectory/{rollout_rank}/{actor_rank}"
