"""Describe the workers of a run before any of them is started."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Node
from rlcore.placement.plan import Allocation
from rlcore.placement.routes import WeightRoute
from rlcore.utils.mkl import Kernels
from rlcore.workers.env_worker import EnvWorkerSettings
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.roles import has_component

OnCount = Callable[[Mapping[str, float]], None]
"""Progress callback. It gets running totals, e.g. `{"episodes": 12, "successes": 3}`, or the values
that a worker's method passes to `on_progress`."""


@dataclass(frozen=True)
class Member:
    """Settings and allocation of one worker."""

    settings: EnvWorkerSettings | PolicyWorkerSettings
    allocation: Allocation


@dataclass(frozen=True)
class WorkerSpecs:
    """Specifications of all workers of a run.

    Attributes:
        cluster: backend and timeouts.
        members: workers by role and rank. Roles are "env" and "rollout+actor", or "env", "rollout"
            and "actor", or only "env" to collect demonstrations.
        nodes: the machines, indexed by the node number of an allocation.
        routes: routes of weights from the actor to separate rollout workers.
        resumed_kernels: kernels of the resumed run, used again where possible; None for a new run.
        output: folder for what libraries print and log in workers (:mod:`rlcore.workers.output`);
            None: it is not redirected.
    """

    cluster: ClusterConfig
    members: Mapping[str, tuple[Member, ...]]
    nodes: tuple[Node, ...] = ()
    routes: tuple[WeightRoute, ...] = ()
    resumed_kernels: Kernels | None = None
    output: Path | None = None

    @property
    def separate(self) -> bool:
        """Whether rollout and actor are separate processes."""
        return "rollout" in self.members

    def node_name(self, number: int) -> str:
        """Return the name of a node for messages."""
        name = self.nodes[number].name if self.nodes else ""
        return f"node {number} ({name})" if name else f"node {number}"

    def worker_name(self, role: str, rank: int) -> str:
        """Return the name of a worker for messages, with its node if there are several nodes."""
        name = f"{role} worker {rank}"
        if len(self.nodes) < 2:
            return name
        return f"{name} on {self.node_name(self.members[role][rank].allocation.node)}"

    def log_of(self, name: str) -> Path | None:
        """Return the file for the output of a worker with a process of its own.

        None: the output is not redirected, or no worker has that name (:meth:`worker_name`).
        """
        for role, members in self.members.items():
            for rank in range(len(members)):
                if self.output is not None and self.worker_name(role, rank) == name:
                    return self.output / f"{role}_{rank}.log"
        return None

    def members_of(self, component: str) -> tuple[Member, ...]:
        """Return the workers of a component by rank; empty if the run does not use it."""
        roles = [role for role in self.members if has_component(role, component)]
        return self.members[roles[0]] if roles else ()

    def without_policy(self) -> WorkerSpecs:
        """Return the specifications of the env workers alone, to collect demonstrations."""
        return replace(self, members={"env": self.members["env"]})


@dataclass(frozen=True)
class ConversationPart:
    """One worker's part in a conversation of several workers.

    Attributes:
        component, rank: the worker.
        method: name of the worker's method that returns a :class:`Conversation`.
        arguments: arguments of the method.
        env_ranks: ranks of the env workers whose queues the part uses.
    """

    component: str
    rank: int
    method: str
    arguments: Mapping[str, Any]
    env_ranks: Collection[int] = ()
