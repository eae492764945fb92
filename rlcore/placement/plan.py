"""Plan the node and the resources of each process from configuration and inventory. Pure.

Knows neither Ray nor what the processes do; :mod:`rlcore.workers` starts them.
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

SHARD_OVER_ALL = 0  # value of `shard_over`: all actor processes shard one copy of the parameters


@dataclass(frozen=True)
class Allocation:
    """The resources of one process.

    Attributes:
        node: number of the node.
        local_ranks: accelerators (or CPU cores), numbered within the node.
        cpus, gpus: share of the node. A rank shared by n processes counts 1/n for each, and each
            accelerator brings an equal part of the node's remaining cores.
        env_vars: environment variables of the process.
        allowed_nodes: numbers of the nodes that the node group of the process allows; None: any.
    """

    node: int
    local_ranks: tuple[int, ...]
    cpus: float
    gpus: float
    env_vars: Mapping[str, str] = field(default_factory=dict)
    allowed_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """The processes of a run and the resources of each.

    Attributes:
        inventory: the machines.
        placement: the parsed placement.
        groups: the node groups of the configuration, by label.
        shard_over: number of actor processes that shard one copy of the parameters; 1: parameters
            are replicated, 0: all actor processes, -1: those of one node.
        offloads: which of "rollout" and "actor" are offloaded while the other one computes.
    """

    inventory: Inventory
    placement: Placement
    groups: Mapping[str, NodeGroup] = field(default_factory=dict)
    shard_over: int = 1
    offloads: tuple[str, ...] = ()

    @cached_property
    def fused(self) -> bool:
        """Whether each process is both rollout worker and actor, over one set of weights.

        That is the case if both have the same ranks and environment variables, process by process,
        and the parameters are replicated: acting needs all of them.
        """
        rollouts, actors = (
            [(process.resources, self._env_vars(process)) for process in self.processes(component)]
            for component in ("rollout", "actor")
        )
        return self.shards == 1 and rollouts == actors

    @property
    def shards(self) -> int:
        """Number of actor processes that shard one copy of the parameters; 1: replicated."""
        if self.shard_over >= 1:
            return self.shard_over
        actors = self.processes("actor")
        if self.shard_over == SHARD_OVER_ALL:
            return len(actors)
        nodes = [self.inventory.locate(process.resources[0])[0] for process in actors]
        return nodes.count(nodes[0])

    def processes(self, component: str) -> tuple[Process, ...]:
        """Return the processes of a component, by rank."""
        return self.placement.processes[component]

    def world_size(self, component: str) -> int:
        """Return the number of processes of a component."""
        return len(self.processes(component))

    def roles(self) -> tuple[tuple[str, tuple[Process, ...]], ...]:
        """Return the processes to start as (role, processes); fused roles appear once."""
        names = ("env", "rollout", "actor")
        if not self.fused:
            return tuple((name, self.processes(name)) for name in names)
        return ("env", self.processes("env")), ("rollout+actor", self.processes("actor"))

    def allocation(self, process: Process) -> Allocation:
        """Return the resources of a process."""
        places = [self.inventory.locate(rank) for rank in process.resources]
        node = places[0][0]
        ranks = sum(1 / len(self.processes_on(rank)) for rank in process.resources)
        on_cores = self.is_on_cores(process)
        # each accelerator brings an equal part of the cores that no process has as ranks
        accelerators = len(self.inventory.ranks(node))
        cores = ranks if on_cores else ranks * self._free_cores(node) / accelerators
        return Allocation(
            node=node,
            local_ranks=tuple(local_rank for _, local_rank in places),
            cpus=cores,
            gpus=0.0 if on_cores else ranks,
            env_vars=self._env_vars(process),
            allowed_nodes=self._allowed_nodes(process),
        )

    def allocations(self, component: str) -> tuple[Allocation, ...]:
        """Return the resources of a component's processes, by rank."""
        return tuple(self.allocation(process) for process in self.processes(component))

    def cores(self, allocation: Allocation) -> int:
        """Return the number of cores that a process may use: all cores of its ranks.

        Env and policy workers that share ranks take turns (or overlap in stages), so each may use
        all cores, though only its share is reserved with the backend.
        """
        if not allocation.gpus:
            return len(allocation.local_ranks)
        free = self._free_cores(allocation.node)
        ranks = self.inventory.ranks(allocation.node)
        return max(1, free * len(allocation.local_ranks) // len(ranks))

    def is_on_cores(self, process: Process) -> bool:
        """Return whether the ranks of a process are CPU cores."""
        return self.inventory.is_core(process.resources[0])

    def is_offloaded(self, role: str, process: Process) -> bool:
        """Return whether a process frees its accelerators while other roles compute on them.

        It does if offloading is enabled for its role, and processes of other roles share them.
        """
        if "actor" in role:
            component = "actor"
            others: tuple[str, ...] = ("env", "rollout")
        else:
            component = "rollout"
            others = ("actor",)
        if role == "env" or component not in self.offloads or self.is_on_cores(process):
            return False
        return any(not self._ranks_of[other].isdisjoint(process.resources) for other in others)

    def processes_on(self, rank: int) -> Sequence[tuple[str, Process]]:
        """Return the processes that use a resource rank, as (role, process)."""
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
        """Resource ranks of each component."""
        return {
            name: frozenset(rank for process in processes for rank in process.resources)
            for name, processes in self.placement.processes.items()
        }

    def _free_cores(self, node: int) -> int:
        """Return the number of a node's cores that no process has as ranks."""
        cores = self.inventory.cores(node)
        return len(cores) - sum(rank in self._users for rank in cores)

    def _allowed_nodes(self, process: Process) -> tuple[int, ...] | None:
        """Return the nodes that all groups of the process which contain its node have in common.

        On each of them the process would get the same environment variables.
        """
        node, _ = self.inventory.locate(process.resources[0])
        groups = [self.groups[label].nodes for label in process.groups]
        groups_of_node = [set(nodes) for nodes in groups if node in nodes]
        return tuple(sorted(set.intersection(*groups_of_node))) if groups_of_node else None

    def _env_vars(self, process: Process) -> dict[str, str]:
        node, _ = self.inventory.locate(process.resources[0])
        variables: dict[str, str] = {}
        for label in process.groups:
            group = self.groups[label]
            if node in group.nodes:
                variables.update(group.env_vars)
        return variables


def parts_of_stage(env_processes: int, stages: int, rollout_processes: int) -> int:
    """Return the number of parts into which the rows of each stage are split.

    With at least as many stages as rollout processes it is 1. With fewer, it is the smallest number
    with which every rollout process answers equally many parts.
    """
    streams = env_processes * stages
    return 1 if streams >= rollout_processes else lcm(streams, rollout_processes) // streams


def rollout_rank_of(
    env_rank: int,
    stage: int,
    env_processes: int,
    rollout_processes: int,
    *,
    part: int = 0,
    parts: int = 1,
) -> int:
    """Return the rollout rank that answers part `part` of stage `stage` of env process `env_rank`.

    Streams are numbered stage by stage and part by part, and assigned round robin. So the numbers
    of streams of any two rollout processes differ by at most one, over all streams and within each
    part of a stage. With as many env as rollout processes, equal ranks talk to each other.
    """
    return ((stage * parts + part) * env_processes + env_rank) % rollout_processes


def make_plan(
    cluster: ClusterConfig,
    inventory: Inventory,
    registry: Registry | None = None,
    *,
    shard_over: int = 1,
    offloads: tuple[str, ...] = (),
) -> Plan:
    """Lay out the processes of a run.

    `cluster.component_placement` is a map, or the name of a placement that a plugin registered.

    Args:
        shard_over, offloads: see :class:`Plan`.

    Raises:
        PlacementError: the map is invalid, nodes have not joined, or a process spans two nodes.
        PluginError: no plugin registered a placement of that name.
    """
    if cluster.num_nodes != len(inventory.nodes):
        raise PlacementError(
            f"cluster.num_nodes is {cluster.num_nodes}, but {len(inventory.nodes)} joined",
            hint=_nodes_hint(cluster, inventory),
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
        raise PlacementError(error.message, hint=error.hint or _ranks_hint(inventory)) from None
    plan = Plan(inventory, placement, groups, shard_over, offloads)
    for name, processes in plan.placement.processes.items():
        for process in processes:
            _require_one_node(name, process, inventory)
            _require_one_kind(name, process, inventory)
    _require_processes_for_env_vars(cluster, plan)
    return plan


def _ranks_hint(inventory: Inventory) -> str:
    """Return a hint that says what the ranks are."""
    gpus = inventory.kind == "GPU"
    resources = f"{inventory.total} {'GPU' if gpus else 'CPU core'}{'s' * (inventory.total != 1)}"
    return (
        f"ranks are the {resources} here{'' if gpus else ', as there is no GPU'}; all of them: "
        f"'{KEY}={{env,rollout,actor: all}}'"
    )


def _nodes_hint(cluster: ClusterConfig, inventory: Inventory) -> str:
    """Return a hint for a number of nodes other than `cluster.num_nodes`."""
    setting = f"set cluster.num_nodes={len(inventory.nodes)}"
    if cluster.inventory is not None or inventory.nodes[0].id:
        return f"{setting}; rlcore cluster shows the nodes"
    return (
        f"{setting}, or start Ray on all nodes and join it: cluster.address=auto "
        "(docs/cluster.md); without an address a run takes the machine that it is started on"
    )


def _require_processes_for_env_vars(cluster: ClusterConfig, plan: Plan) -> None:
    """Refuse `env_vars` with the local backend: they are set when a process starts."""
    labels = [label for label, group in plan.groups.items() if group.env_vars]
    if labels and cluster.backend == "local":
        raise PlacementError(
            f"cluster.node_groups, label {labels[0]!r}: env_vars need a backend with "
            "processes, got cluster.backend=local, which runs all workers in the driver's process",
            hint="set them where you start the command",
        )


def _require_one_kind(name: str, process: Process, inventory: Inventory) -> None:
    if len({inventory.is_core(rank) for rank in process.resources}) > 1:
        raise PlacementError(
            f"{KEY}.{name}: process {process.rank} would own accelerators and cores; a process "
            "takes one kind",
            hint="name groups with and without ignore_hardware in separate entries",
        )


def _require_one_node(name: str, process: Process, inventory: Inventory) -> None:
    nodes = sorted({inventory.locate(rank)[0] for rank in process.resources})
    if len(nodes) > 1:
        ranks = f"{process.resources[0]}-{process.resources[-1]}"
        raise PlacementError(
            f"{KEY}.{name}: process {process.rank} would own ranks {ranks}, which are on nodes "
            f"{', '.join(map(str, nodes))}; a process must be on one node",
            hint="use more processes, or ranks of one node: "
            + "; ".join(
                f"node {node} has {inventory.ranks(node).start}-{inventory.ranks(node).stop - 1}"
                for node in nodes
            ),
        )
