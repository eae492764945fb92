"""Configuration and inventory -> plan: every process with its node and its share. Pure.

Knows neither Ray nor what the processes do; the workers carry a plan out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema import ClusterConfig
from rlcore.errors import PlacementError, PluginError
from rlcore.placement.grammar import KEY, Placement, Process, parse, parse_ranks
from rlcore.placement.inventory import Inventory
from rlcore.plugins import Registry, load_plugins
from rlcore.targets import load_target


@dataclass(frozen=True)
class Seat:
    """Where a process sits and what it may count on.

    Attributes:
        node: index of its node.
        local_ranks: its accelerators (or CPU slots), numbered within the node.
        cpus, gpus: its share of the node. A rank shared by n processes counts 1/n for each,
            and each rank brings an equal part of its node's cores.
    """

    node: int
    local_ranks: tuple[int, ...]
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Plan:
    """The processes of a run and where they sit.

    Attributes:
        inventory: the machines planned for.
        placement: the parsed map.
    """

    inventory: Inventory
    placement: Placement

    @property
    def fused(self) -> bool:
        """Whether rollout and actor sit on the same ranks, process by process: then one process
        is both, over one set of weights."""
        return self.processes("rollout") == self.processes("actor")

    def processes(self, component: str) -> tuple[Process, ...]:
        """Processes of a component, by rank."""
        return self.placement.processes[component]

    def world_size(self, component: str) -> int:
        """Number of processes of a component."""
        return len(self.processes(component))

    def roles(self) -> tuple[tuple[str, tuple[Process, ...]], ...]:
        """What is really started: (name, processes), rollout and actor as one where fused."""
        names = ("env", "rollout", "actor")
        if not self.fused:
            return tuple((name, self.processes(name)) for name in names)
        return ("env", self.processes("env")), ("rollout+actor", self.processes("actor"))

    def seat(self, process: Process) -> Seat:
        """Node and share of a process of this plan."""
        places = [self.inventory.locate(rank) for rank in process.resources]
        node = places[0][0]
        slots = sum(1 / self._sharers(rank) for rank in process.resources)
        cores_per_slot = self.inventory.nodes[node].cpus / self.inventory.slots(node)
        return Seat(
            node=node,
            local_ranks=tuple(local for _, local in places),
            cpus=slots * cores_per_slot,
            gpus=slots if self.inventory.kind == "GPU" else 0.0,
        )

    def seats(self, component: str) -> tuple[Seat, ...]:
        """Seats of a component's processes, by rank."""
        return tuple(self.seat(process) for process in self.processes(component))

    def cores(self, seat: Seat) -> int:
        """Cores of the ranks a process sits on. Env and policy take turns (or overlap in stages),
        so each may use them all; what Ray reserves is the share."""
        node = self.inventory.nodes[seat.node]
        return max(1, node.cpus * len(seat.local_ranks) // self.inventory.slots(seat.node))

    def rollout_rank(self, env_rank: int, stage: int) -> int:
        """The rollout process that answers this stage of this env process."""
        return route(env_rank, stage, self.world_size("env"), self.world_size("rollout"))

    def _sharers(self, rank: int) -> int:
        """How many processes use a resource rank."""
        return sum(rank in p.resources for _, processes in self.roles() for p in processes)


def route(env_rank: int, stage: int, env_processes: int, rollout_processes: int) -> int:
    """The rollout rank that answers stage `stage` of env process `env_rank`.

    Streams are numbered stage by stage and dealt round robin: over all stages, and within each
    one, no rollout process answers more than one stream above another, whatever the two numbers
    are; with equal numbers every env process talks to the process of its own rank.
    """
    return (stage * env_processes + env_rank) % rollout_processes


def make_plan(
    cluster: ClusterConfig, inventory: Inventory, registry: Registry | None = None
) -> Plan:
    """Lay out the processes of a run.

    `cluster.component_placement` is a map, or the name of a placement that a plugin registered.

    Raises:
        PlacementError: a bad map, nodes that have not joined, a process that spans two nodes.
        PluginError: a placement name nobody registered.
    """
    if cluster.num_nodes != len(inventory.nodes):
        raise PlacementError(
            f"cluster.num_nodes is {cluster.num_nodes}, but {len(inventory.nodes)} joined",
            hint=f"set cluster.num_nodes={len(inventory.nodes)}: a run takes the machine "
            "that it is started on, and no other so far",
        )
    mapping = cluster.component_placement
    if isinstance(mapping, str):
        try:
            component = (registry or load_plugins()).get("placement", mapping)
        except PluginError as error:
            hint = "or a map of ranks: {env: all, rollout: all, actor: all}"
            raise PluginError(f"{KEY}: {error.message}", hint=hint) from None
        mapping = load_target(component.spec.target)(inventory, cluster)
    groups = _groups(cluster.node_groups, inventory)
    plan = Plan(inventory, parse(mapping, inventory.total, groups))
    for name, processes in plan.placement.processes.items():
        for process in processes:
            _on_one_node(name, process, inventory)
    return plan


def _groups(node_groups: Sequence[Any], inventory: Inventory) -> Mapping[str, list[int]]:
    """`{label: global resource ranks}` of the groups defined in the configuration."""
    groups: dict[str, list[int]] = {}
    for group in node_groups:
        if not isinstance(group, Mapping) or set(group) != {"label", "node_ranks"}:
            raise PlacementError(
                "cluster.node_groups must be a list of {label: NAME, node_ranks: 0-1}, "
                f"got the entry {group!r}"
            )
        label = str(group["label"])
        if label in groups:
            raise PlacementError(f"cluster.node_groups: label {label!r} appears twice")
        nodes: list[int] = []
        for part in str(group["node_ranks"]).split(","):
            where = f"cluster.node_groups, label {label!r}: node_ranks {part.strip()!r}"
            nodes += parse_ranks(part.strip(), where, len(inventory.nodes))
        groups[label] = [rank for node in nodes for rank in inventory.ranks(node)]
    return groups


def _on_one_node(name: str, process: Process, inventory: Inventory) -> None:
    nodes = sorted({inventory.locate(rank)[0] for rank in process.resources})
    if len(nodes) > 1:
        ranks = f"{process.resources[0]}-{process.resources[-1]}"
        raise PlacementError(
            f"{KEY}.{name}: process {process.rank} would own ranks {ranks}, which lie on nodes "
            f"{', '.join(map(str, nodes))}; a process must stay on one node",
            hint="use more processes, or ranks of one node: "
            + "; ".join(
                f"node {node} has {inventory.ranks(node).start}-{inventory.ranks(node).stop - 1}"
                for node in nodes
            ),
        )
