"""The workers of a run as one object: start them, let them talk, ask them, stop them.

Two backends run the same worker classes. Whoever uses a group can't tell which one it has:

    local   all workers in this process, conversations interleaved: pdb works, starts at once
            (rlcore.workers.local_group)
    ray     a process per worker, conversations over a channel (rlcore.workers.ray_group)

One update, where rollout and actor are one process, and where they are not:

    fused      converse ------------> update ------>
    separate   converse -> hand_over -> update -> sync ->
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from rlcore.kernels import Rounding, processor, settle
from rlcore.rollout.messages import InteractJob, InteractReport
from rlcore.workers.rollout_worker import RolloutSummary
from rlcore.workers.roster import OnCount, Part, Roster


class WorkerGroup(ABC):
    """What the loops see of the workers. A backend says how they are started, called, brought to
    talk and stopped; the rest is the same for all."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._timeouts = roster.cluster.timeouts
        self.kernels = settle([processor()], roster.begun)
        """What the workers compute with; a backend that spans machines settles it anew."""

    # -- a backend's part ---------------------------------------------------------------------

    @abstractmethod
    def ranks(self, component: str) -> int:
        """Number of workers of a component that jobs must be made for."""

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
            self.sync()
        except BaseException:
            self.stop(graceful=False)
            raise

    def env(self, method: str, per_rank: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Call a method of every env worker, with keyword arguments per rank."""
        return self._call("env", method, per_rank)

    def actor(self, method: str, *, on_count: OnCount | None = None, **arguments: Any) -> list[Any]:
        """Call a method of every worker that learns with the same arguments; results by rank."""
        every = [arguments] * self.ranks("actor")
        return self._call("actor", method, every, on_count)

    def actor_on_first(self, method: str, **arguments: Any) -> Any:
        """Call a method of actor worker 0 alone; its result."""
        return self._call("actor", method, [arguments])[0]

    def policy(self, method: str, **arguments: Any) -> None:
        """Call a method of every worker that holds a policy, acting or learning, once each."""
        self.actor(method, **arguments)
        if self._roster.separate:
            self._call("rollout", method, [arguments] * self.ranks("rollout"))

    def rounding(self, forward_batch: int | None) -> list[Rounding]:
        """Of every worker that holds a policy, those that act first; empty if no worker does."""
        acting, learning = self.ranks("rollout"), self.ranks("actor")
        if not acting:
            return []
        found = self._call("rollout", "check_rounding", [{"forward_batch": forward_batch}] * acting)
        if self._roster.separate:
            found += self._call("actor", "check_rounding", [{"forward_batch": None}] * learning)
        return found

    def converse(
        self,
        interact: Sequence[InteractJob],
        rollout: Sequence[Any],
        on_count: OnCount | None = None,
    ) -> tuple[list[InteractReport], list[RolloutSummary]]:
        """Let env workers and rollout workers play: one job per rank each."""
        due = self.actor_on_first("version") if self._roster.separate else None
        results = self._talk(
            [
                *(Part("env", rank, "converse", {"job": job}) for rank, job in enumerate(interact)),
                *(
                    Part("rollout", rank, "converse", {"job": replace(job, weights=due)})
                    for rank, job in enumerate(rollout)
                ),
            ],
            on_count,
        )
        return results[: len(interact)], results[len(interact) :]

    def hand_over(self) -> None:
        """Let the trajectory go from the workers that gathered it to those that learn from it.
        Where these are the same it is there already."""
        if not self._roster.separate:
            return
        rollouts, actors = range(self.ranks("rollout")), range(self.ranks("actor"))
        self._talk(
            [
                *(
                    Part("rollout", rank, "hand_over", {"keys": [_pieces(rank, a) for a in actors]})
                    for rank in rollouts
                ),
                *(
                    Part(
                        "actor",
                        rank,
                        "take_over",
                        {
                            "keys": [_pieces(r, rank) for r in rollouts],
                            "timeout": self._timeouts.sync,
                        },
                    )
                    for rank in actors
                ),
            ]
        )

    def sync(self) -> None:
        """Give the actor's weights to all workers that act; needed after each change of them.
        Where they are the same weights there is nothing to do."""
        if not self._roster.separate:
            return
        keys = [f"weights/{rank}" for rank in range(self.ranks("rollout"))]
        self._talk(
            [
                *(
                    Part("actor", rank, "publish", {"keys": [] if rank else keys})
                    for rank in range(self.ranks("actor"))
                ),
                *(
                    Part("rollout", rank, "pull", {"key": key, "timeout": self._timeouts.sync})
                    for rank, key in enumerate(keys)
                ),
            ]
        )


def _pieces(rollout_rank: int, actor_rank: int) -> str:
    """Key of the queue for pieces of a trajectory."""
    return f"trajectory/{rollout_rank}/{actor_rank}"
