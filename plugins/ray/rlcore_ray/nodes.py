"""Wait for the nodes of a Ray cluster, query their facts, and sort them by rank.

Rank order: the head first, the others by their label `rlcore-rank` if they have one, then by
address, then as Ray lists them.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError, WorkerError
from rlcore.placement import Inventory, Node
from rlcore_ray import node_probe
from rlcore_ray.cluster import alive_nodes, cluster_session

POLL_SECONDS = 0.5
RANK = "rlcore-rank"  # label by which whoever starts a node gives it its number
NO_LABEL = "ray.io/"  # Ray's own labels begin so
# accelerators stay visible to a task that reserves none
SEES_ALL = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}


def join_cluster(cluster: ClusterConfig, *, wait: bool) -> Inventory:
    """Return the machines of the cluster at `cluster.address`.

    Args:
        wait: whether to wait up to `cluster.timeouts.nodes` for `cluster.num_nodes` nodes.

    Raises:
        PlacementError: too few joined, or they have different versions of Python or rlcore.
        WorkerError: the cluster or a node does not answer.
    """
    with cluster_session(cluster):
        nodes, answers = _asked(cluster, cluster.timeouts.nodes if wait else 0.0)
        _require_alike(answers)
        pairs = zip(nodes, answers, strict=True)
        return Inventory(
            tuple(_node(n, *pair, cluster.network_interface) for n, pair in enumerate(pairs)),
            head=ray.get_runtime_context().gcs_address,
        )


def current(cluster: ClusterConfig) -> Inventory | None:
    """Return the machines of the cluster that this process has already joined.

    The result is None if it has joined none, or if the cluster has only one node.
    """
    if not ray.is_initialized() or len(alive_nodes()) == 1:
        return None
    return join_cluster(cluster, wait=True)


def ask_nodes(
    ids: Mapping[int, str], question: Callable[..., Any], arguments: Sequence[Any], timeout: float
) -> list[Any]:
    """Run a function of :mod:`rlcore_ray.node_probe` on each node; return the answers.

    Args:
        ids: Ray's names of the nodes, by their numbers.

    Raises:
        WorkerError: a node does not answer, or fails.
    """
    cloudpickle.register_pickle_by_value(node_probe)
    try:
        asked = ray.remote(question)
        refs = [
            asked.options(
                num_cpus=0,
                max_retries=0,
                runtime_env=SEES_ALL,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            ).remote(*arguments)
            for node in ids.values()
        ]
    finally:
        cloudpickle.unregister_pickle_by_value(node_probe)
    answers = []
    for index, ref in zip(ids, refs, strict=True):
        try:
            answers.append(ray.get(ref, timeout=timeout))
        except GetTimeoutError:
            raise WorkerError(
                f"node {index} has not answered within {timeout:g} s (cluster.timeouts.start)",
                hint="ray status; rlcore cluster shows the nodes",
            ) from None
        except RayError as error:
            raise WorkerError(
                f"node {index} can't be asked what it has: {_reason(error)}",
                hint="ray status; are Python and Ray there the same as here?",
            ) from None
    return answers


def _reason(error: RayError) -> str:
    """Return one line: the last of a traceback from the node, else the first of Ray's message."""
    return str(error).strip().splitlines()[-1 if isinstance(error, RayTaskError) else 0]


def _asked(cluster: ClusterConfig, patience: float) -> tuple[list[dict[str, Any]], list[Any]]:
    """The nodes, and what each says of itself; one that is gone by then was not there."""
    while True:
        nodes = _arrived(cluster.num_nodes, patience)
        ids = {number: node["NodeID"] for number, node in enumerate(nodes)}
        try:
            return nodes, ask_nodes(ids, node_probe.look, (), cluster.timeouts.start)
        except WorkerError:
            if {node["NodeID"] for node in alive_nodes()} >= set(ids.values()):
                raise


def _arrived(wanted: int, patience: float) -> list[dict[str, Any]]:
    """Wait until `wanted` nodes have joined, and return all nodes in rank order.

    Raises:
        PlacementError: too few nodes joined within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    said = False
    while True:
        nodes = alive_nodes()
        if len(nodes) >= wanted:
            return sorted(nodes, key=_order)
        if time.monotonic() >= deadline:
            within = f" within {patience:g} s (cluster.timeouts.nodes)" if patience else ""
            raise PlacementError(
                f"cluster.num_nodes is {wanted}, but {len(nodes)} joined{within}: "
                + ", ".join(node["NodeManagerAddress"] for node in nodes),
                hint="ray start --address=HEAD:6379 on the others (docs/cluster.md), or set "
                f"cluster.num_nodes={len(nodes)}",
            )
        if not said:
            print(
                f"{len(nodes)} of {wanted} nodes have joined; waiting up to {patience:g} s for the "
                "others (cluster.timeouts.nodes)",
                file=sys.stderr,
            )
            said = True
        time.sleep(POLL_SECONDS)


def _order(node: dict[str, Any]) -> tuple[bool, int, str]:
    rank = str(node["Labels"].get(RANK, ""))
    return (
        "node:__internal_head__" not in node["Resources"],
        int(rank) if rank.isdecimal() else sys.maxsize,
        node["NodeManagerAddress"],
    )


def _node(number: int, node: dict[str, Any], answer: dict[str, Any], interface: str | None) -> Node:
    resources = node["Resources"]
    gpus = int(resources.get("GPU", 0))
    visible = answer["devices"]
    devices = [str(number) for number in range(gpus)] if visible is None else visible.split(",")
    return Node(
        cpus=int(resources.get("CPU", 0)),
        gpus=gpus,
        memory=answer["memory"],
        gpu_memory=answer["gpu_memory"] if gpus else 0,
        name=f"{answer['host']}, {node['NodeManagerAddress']}",
        labels={k: v for k, v in node["Labels"].items() if not k.startswith(NO_LABEL)},
        id=node["NodeID"],
        devices=tuple(devices[:gpus]),
        interface=_interface(number, node["NodeManagerAddress"], answer["interfaces"], interface),
    )


def _interface(
    number: int, address: str, interfaces: Mapping[str, Sequence[str]], given: str | None
) -> str:
    """Return the network interface of a node: the given one, or that of its address, or "".

    Raises:
        PlacementError: the node has no interface with the given name.
    """
    if given is not None and given not in interfaces:
        raise PlacementError(
            f"cluster.network_interface={given!r}: node {number} ({address}) has no such network "
            f"interface; it has {', '.join(interfaces)}"
        )
    known = _addresses(address)
    return given or next((name for name, held in interfaces.items() if known & set(held)), "")


def _addresses(node: str) -> set[str]:
    """What a node is known by; of a name (`ray start --node-ip-address=NAME`) what it stands for,
    but for addresses that others can't reach."""
    try:
        found = {str(place[0]) for *_, place in socket.getaddrinfo(node, None)}
    except OSError:
        return {node}
    return {node, *(one for one in found if not one.startswith("127.") and one != "::1")}


def _require_alike(answers: Sequence[dict[str, Any]]) -> None:
    """Require one version of Python and of all our packages: workers exchange objects.

    Raises:
        PlacementError: names what differs, and which node has which.
    """
    said = []
    for what, here in _versions(node_probe.look()).items():
        found = [_versions(answer).get(what, "none") for answer in answers]
        if any(other != here for other in found):
            nodes = ", ".join(f"node {n} {version}" for n, version in enumerate(found))
            said.append(f"{what}: {here} here, {nodes}")
    if said:
        raise PlacementError(
            f"all nodes must have the same versions, got {'; '.join(said)}",
            hint="install the same on every node, then start Ray there anew (docs/cluster.md)",
        )


def _versions(answer: dict[str, Any]) -> dict[str, str]:
    return {"Python": ".".join(answer["python"].split(".")[:2]), **answer["versions"]}
