"""Make the plan from configuration and inventory: each process with its node and share. Pure.

Knows neither Ray nor what the processes do; the workers carry a plan out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError, PluginError
from rlcore.placement.grammar import KEY, Placement, Process, parse
from rlcore.placement.groups import NodeGroup, read_groups
from rlcore.placement.inventory import Inventory
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry, load_plugins

DIVIDED_BY_ALL = 0  # of the numbers of processes that divide one copy of the parameters


@dataclass(frozen=True)
class Allocation:
    """The resources of a process: its node, its ranks and its share of the node.

    Attributes:
        node: index of its node.
        local_ranks: its accelerators (or CPU cores), numbered within the node.
        cpus, gpus: its share of the node. A rank shared by n processes counts 1/n for each,
            and each accelerator brings an equal part of the cores that its node has left.
        env_vars: set in its process.
        among: numbers of the nodes that the process was placed through, by a group; None: it may
            sit anywhere.
    """

    node: int
    local_ranks: tuple[int, ...]
    cpus: float
    gpus: float
    env_vars: Mapping[str, str] = field(default_factory=dict)
    among: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """The processes of a run and where they sit.

    Attributes:
        inventory: the machines planned for.
        placement: the parsed map.
        groups: the node groups of the configuration, by label.
        divides: how many actor processes shard one copy of the parameters: all of them (0), none
            (1), those of a node (-1), or so many.
        offloads: which of "rollout" and "actor" are asked to leave accelerators to others while
            these work.
    """

    inventory: Inventory
    placement: Placement
    groups: Mapping[str, NodeGroup] = field(default_factory=dict)
    divides: int = 1
    offloads: tuple[str, ...] = ()

    @cached_property
    def fused(self) -> bool:
        """Whether rollout and actor sit on the same ranks, process by process, in the same
        environment: then one process is both, over one set of weights. Not where that set is
        sharded: acting needs all."""
        both = (self.processes("rollout"), self.processes("actor"))
        acts, learns = ([(p.resources, self._env_vars(p)) for p in each] for each in both)
        return self.shares == 1 and acts == learns

    @property
    def shares(self) -> int:
        """How many actor processes shard one copy of the parameters; 1: each holds all."""
        if self.divides >= 1:
            return self.divides
        actors = self.processes("actor")
        if self.divides == DIVIDED_BY_ALL:
            return len(actors)
        nodes = [self.inventory.locate(process.resources[0])[0] for process in actors]
        return nodes.count(nodes[0])

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

    def allocation(self, process: Process) -> Allocation:
        """Node and share of a process of this plan."""
        places = [self.inventory.locate(rank) for rank in process.resources]
        node = places[0][0]
        shares = sum(1 / len(self.on(rank)) for rank in process.resources)
        on_cores = self.on_cores(process)
        return Allocation(
            node=node,
            local_ranks=tuple(local for _, local in places),
            cpus=shares
            if on_cores
            else shares * self._free_cores(node) / len(self.inventory.ranks(node)),
            gpus=0.0 if on_cores else shares,
            env_vars=self._env_vars(process),
            among=self._among(process),
        )

    def allocations(self, component: str) -> tuple[Allocation, ...]:
        """Allocations of a component's processes, by rank."""
        return tuple(self.allocation(process) for process in self.processes(component))

    def cores(self, allocation: Allocation) -> int:
        """Cores of the ranks a process sits on. Env and policy take turns (or overlap in stages),
        so each may use them all; what Ray reserves is the share."""
        if not allocation.gpus:
            return len(allocation.local_ranks)
        free = self._free_cores(allocation.node)
        ranks = self.inventory.ranks(allocation.node)
        return max(1, free * len(allocation.local_ranks) // len(ranks))

    def on_cores(self, process: Process) -> bool:
        """Whether it sits on CPU cores."""
        return self.inventory.is_core(process.resources[0])

    def leaves(self, role: str, process: Process) -> bool:
        """Whether a process of a role leaves its memory on accelerators to others: it is asked to,
        and there are such that work there while it does not."""
        own, others = ("actor", ("env", "rollout")) if "actor" in role else ("rollout", ("actor",))
        if role == "env" or own not in self.offloads or self.on_cores(process):
            return False
        return any(not self._ranks_of[name].isdisjoint(process.resources) for name in others)

    def on(self, rank: int) -> Sequence[tuple[str, Process]]:
        """The processes that use a resource rank, with their roles."""
        return self._users.get(rank, ())

    @cached_property
    def _users(self) -> Mapping[int, Sequence[tuple[str, Process]]]:
        users: defaultdict[int, list[tuple[str, Process]]] = defaultdict(list)
        for role, processes in self.roles():
            for process in processes:
                for rank in process.resources:
                    users[rank].append((role, process))
        return dict(users)

    @cached_property
    def _ranks_of(self) -> Mapping[str, frozenset[int]]:
        """All ranks of a component."""
        return {
            name: frozenset(rank for process in processes for rank in process.resources)
            for name, processes in self.placement.processes.items()
        }

    def _free_cores(self, node: int) -> int:
        """Cores of a node that are nobody's rank: its accelerators share them."""
        cores = self.inventory.cores(node)
        return len(cores) - sum(rank in self._users for rank in cores)

    def _among(self, process: Process) -> tuple[int, ...] | None:
        """The nodes of those groups through which it came to its node: all of them have the same
        variables."""
        node, _ = self.inventory.locate(process.resources[0])
        through = [self.groups[label].nodes for label in process.groups]
        here = [set(nodes) for nodes in through if node in nodes]
        return tuple(sorted(set.intersection(*here))) if here else None

    def _env_vars(self, process: Process) -> dict[str, str]:
        node, _ = self.inventory.locate(process.resources[0])
        through = [self.groups[label] for label in process.groups]
        return {n: v for group in through if node in group.nodes for n, v in group.env_vars.items()}


def parts(env_processes: int, stages: int, rollout_processes: int) -> int:
    """Into how many parts the rows of each stage are split, so that every rollout process has rows
    to answer: 1 where there are at least as many stages as rollout processes, else the least
    number that deals out evenly."""
    streams = env_processes * stages
    return 1 if streams >= rollout_processes else lcm(streams, rollout_processes) // streams


def route(
    env_rank: int,
    stage: int,
    env_processes: int,
    rollout_processes: int,
    *,
    part: int = 0,
    parts: int = 1,
) -> int:
    """The rollout rank that answers part `part` of stage `stage` of env process `env_rank`.

    Streams are numbered stage by stage, part by part, and dealt round robin: over all of them, and
    within each part of a stage, no rollout process answers more than one stream above another,
    whatever the two numbers are; with equal numbers every env process talks to the process of its
    own rank.
    """
    return ((stage * parts + part) * env_processes + env_rank) % rollout_processes


def make_plan(
    cluster: ClusterConfig,
    inventory: Inventory,
    registry: Registry | None = None,
    *,
    divides: int = 1,
    offloads: tuple[str, ...] = (),
) -> Plan:
    """Lay out the processes of a run.

    `cluster.component_placement` is a map, or the name of a placement that a plugin registered.

    Args:
        divides, offloads: see :class:`Plan`.

    Raises:
        PlacementError: a bad map, nodes that have not joined, a process that spans two nodes.
        PluginError: a placement name nobody registered.
    """
    if cluster.num_nodes != len(inventory.nodes):
        raise PlacementError(
            f"cluster.num_nodes is {cluster.num_nodes}, but {len(inventory.nodes)} joined",
            hint=_on_nodes(cluster, inventory),
        )
    mapping = cluster.component_placement
    if isinstance(mapping, str):
        try:
            component = (registry or load_plugins()).get("placement", mapping)
        except PluginError as error:
            hint = "or a map of ranks: {env: all, rollout: all, actor: all}"
            raise PluginError(f"{KEY}: {error.message}", hint=hint) from None
        mapping = load_target(component.spec.target)(inventory, cluster)
    groups = read_groups(cluster.node_groups, inventory)
    ranks = {label: group.ranks for label, group in groups.items()}
    try:
        placement = parse(mapping, inventory.total, ranks)
    except PlacementError as error:
        raise PlacementError(error.message, hint=error.hint or _ranks(inventory)) from None
    plan = Plan(inventory, placement, groups, divides, offloads)
    for name, processes in plan.placement.processes.items():
        for process in processes:
            _on_one_node(name, process, inventory)
            _of_one_kind(name, process, inventory)
    _require_processes_of_their_own(cluster, plan)
    return plan


def _ranks(inventory: Inventory) -> str:
    """What there is to be named."""
    gpus = inventory.kind == "GPU"
    there = f"{inventory.total} {'GPU' if gpus else 'CPU core'}{'s' * (inventory.total != 1)}"
    return (
        f"ranks are the {there} here{'' if gpus else ', as there is no GPU'}; all of them: "
        f"'{KEY}={{env,rollout,actor: all}}'"
    )


def _on_nodes(cluster: ClusterConfig, inventory: Inventory) -> str:
    """What to do where other nodes than `cluster.num_nodes` are there."""
    take = f"set cluster.num_nodes={len(inventory.nodes)}"
    if cluster.inventory is not None or inventory.nodes[0].id:
        return f"{take}; rlcore cluster shows the nodes"
    return (
        f"{take}, or start Ray on all nodes and join it: cluster.address=auto (docs/cluster.md); "
        "without an address a run takes the machine that it is started on"
    )


def _require_processes_of_their_own(cluster: ClusterConfig, plan: Plan) -> None:
    """Variables are set when a process starts, and the local backend starts none."""
    asked = [label for label, group in plan.groups.items() if group.env_vars]
    if asked and cluster.backend == "local":
        raise PlacementError(
            f"cluster.node_groups, label {asked[0]!r}: env_vars need a backend with "
            "processes, got cluster.backend=local, which runs all workers in this one",
            hint="set them where you start the command",
        )


def _of_one_kind(name: str, process: Process, inventory: Inventory) -> None:
    if len({inventory.is_core(rank) for rank in process.resources}) > 1:
        raise PlacementError(
            f"{KEY}.{name}: process {process.rank} would own accelerators and cores; a process "
            "takes one kind",
            hint="name groups with and without ignore_hardware in entries of their own",
        )


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
