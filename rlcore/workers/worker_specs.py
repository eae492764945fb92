"""Describe a group of workers before any of them is started."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlcore.config.schema import ClusterConfig
from rlcore.numerics.mkl import Kernels
from rlcore.placement import Node
from rlcore.placement.plan import Allocation
from rlcore.placement.routes import WeightRoute
from rlcore.workers.env_worker import EnvWorkerSettings
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.roles import has_component

OnCount = Callable[[Mapping[str, float]], None]
"""Called now and then with where things stand: running totals, e.g. `{"episodes": 12,
"successes": 3}`, or what a call tells of itself."""


@dataclass(frozen=True)
class Member:
    """A worker to start: its settings and its allocation."""

    settings: EnvWorkerSettings | PolicyWorkerSettings
    allocation: Allocation


@dataclass(frozen=True)
class WorkerSpecs:
    """All workers of a run.

    Attributes:
        cluster: backend and timeouts.
        members: by role and rank: "env" and "rollout+actor", or "env", "rollout" and "actor";
            "env" alone, to collect demonstrations.
        nodes: the machines, by the numbers that allocations give.
        apart: nodes without access to the run folder, by number, each with the paths of the
            configuration that are on its own disk; files are sent to their workers.
        routes: how weights get to rollout workers of their own.
        begun: kernels of the resumed run, used again where possible; None for a new run.
    """

    cluster: ClusterConfig
    members: Mapping[str, tuple[Member, ...]]
    nodes: tuple[Node, ...] = ()
    apart: Mapping[int, frozenset[str]] = field(default_factory=dict)
    routes: tuple[WeightRoute, ...] = ()
    begun: Kernels | None = None

    @property
    def separate(self) -> bool:
        """Whether rollout and actor are processes of their own."""
        return "rollout" in self.members

    def node_name(self, number: int) -> str:
        """Name a node in messages."""
        name = self.nodes[number].name if self.nodes else ""
        return f"node {number} ({name})" if name else f"node {number}"

    def worker_name(self, role: str, rank: int) -> str:
        """Name a worker in messages: with its node where there are several."""
        name = f"{role} worker {rank}"
        if len(self.nodes) < 2:
            return name
        return f"{name} on {self.node_name(self.members[role][rank].allocation.node)}"

    def of(self, component: str) -> tuple[Member, ...]:
        """Return the workers of a component, by rank; none where the run does without it."""
        roles = [role for role in self.members if has_component(role, component)]
        return self.members[roles[0]] if roles else ()

    def without_policy(self) -> WorkerSpecs:
        """Return the env workers alone, to collect demonstrations."""
        return replace(self, members={"env": self.members["env"]})


@dataclass(frozen=True)
class Part:
    """One worker's part in a conversation.

    Attributes:
        component, rank: the worker.
        talk: the name of one of its talks.
        arguments: of the talk.
        env_ranks: the env workers whose queues it uses.
    """

    component: str
    rank: int
    talk: str
    arguments: Mapping[str, Any]
    env_ranks: Collection[int] = ()
