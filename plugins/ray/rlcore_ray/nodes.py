"""Wait for the nodes of a Ray cluster, query their facts, and sort them by rank.

The rank order is: the head; the other nodes by their label `rlcore-rank`, if they have one; then by
address; then as Ray lists them.
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
RANK = "rlcore-rank"  # label with the rank of a node, set when Ray is started on it
RAY_PREFIX = "ray.io/"  # prefix of Ray's own labels
# keeps accelerators visible to a task that reserves none
SEES_ACCELERATORS = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}


def join_cluster(cluster: ClusterConfig, *, wait: bool) -> Inventory:
    """Return the machines of the cluster at `cluster.address`.

    Args:
        wait: whether to wait up to `cluster.timeouts.nodes` for `cluster.num_nodes` nodes.

    Raises:
        PlacementError: too few joined, or they have different versions of Python or rlcore.
        WorkerError: the cluster or a node does not answer.
    """
    with cluster_session(cluster):
        nodes, facts = _described_nodes(cluster, cluster.timeouts.nodes if wait else 0.0)
        _require_same_versions(facts)
        pairs = zip(nodes, facts, strict=True)
        return Inventory(
            tuple(
                _node(number, *pair, cluster.network_interface) for number, pair in enumerate(pairs)
            ),
            head=ray.get_runtime_context().gcs_address,
        )


def joined_nodes(cluster: ClusterConfig) -> Inventory | None:
    """Return the machines of the cluster that this process has already joined.

    The result is None if it has joined none, or if the cluster has only one node.
    """
    if not ray.is_initialized() or len(alive_nodes()) == 1:
        return None
    return join_cluster(cluster, wait=True)


def ask_nodes(
    ids: Sequence[str],
    function: Callable[..., Any],
    arguments: Sequence[Sequence[Any]],
    timeout: float,
) -> list[Any]:
    """Call a function of :mod:`rlcore_ray.node_probe` on each node; return the results.

    Args:
        ids: Ray's ids of all nodes, by number.
        arguments: arguments of the call on each node.
        timeout: seconds to wait for each node.

    Raises:
        WorkerError: a node does not answer, or the function fails.
    """
    cloudpickle.register_pickle_by_value(node_probe)
    try:
        task = ray.remote(function)
        refs = [
            task.options(
                num_cpus=0,
                max_retries=0,
                runtime_env=SEES_ACCELERATORS,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            ).remote(*own)
            for node, own in zip(ids, arguments, strict=True)
        ]
    finally:
        cloudpickle.unregister_pickle_by_value(node_probe)
    return [_answer(number, ref, timeout) for number, ref in enumerate(refs)]


def _answer(number: int, ref: Any, timeout: float) -> Any:
    """Return the result of a call on a node.

    Raises:
        WorkerError: the node does not answer, or the function failed there.
    """
    try:
        return ray.get(ref, timeout=timeout)
    except GetTimeoutError:
        raise WorkerError(
            f"node {number} has not answered within {timeout:g} s (cluster.timeouts.start)",
            hint="ray status; rlcore cluster shows the nodes",
        ) from None
    except RayError as error:
        # one line: the last of a traceback from the node, else the first of Ray's message
        reason = str(error).strip().splitlines()[-1 if isinstance(error, RayTaskError) else 0]
        raise WorkerError(
            f"node {number} can't be asked what it has: {reason}",
            hint="ray status; are Python and Ray there the same as here?",
        ) from None


def _described_nodes(
    cluster: ClusterConfig, patience: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the nodes as Ray lists them, and the facts that each node reports.

    If a node leaves before it answers, start again with the remaining nodes.
    """
    while True:
        nodes = _arrived(cluster.num_nodes, patience)
        ids = [node["NodeID"] for node in nodes]
        try:
            return nodes, ask_nodes(
                ids, node_probe.describe, [()] * len(ids), cluster.timeouts.start
            )
        except WorkerError:
            if {node["NodeID"] for node in alive_nodes()} >= set(ids):
                raise


def _arrived(wanted: int, patience: float) -> list[dict[str, Any]]:
    """Wait until `wanted` nodes have joined, and return all nodes in rank order.

    Raises:
        PlacementError: too few nodes joined within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    announced = False
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
        if not announced:
            print(
                f"{len(nodes)} of {wanted} nodes have joined; waiting up to {patience:g} s for the "
                "others (cluster.timeouts.nodes)",
                file=sys.stderr,
            )
            announced = True
        time.sleep(POLL_SECONDS)


def _order(node: dict[str, Any]) -> tuple[bool, int, str]:
    rank = str(node["Labels"].get(RANK, ""))
    return (
        "node:__internal_head__" not in node["Resources"],
        int(rank) if rank.isdecimal() else sys.maxsize,
        node["NodeManagerAddress"],
    )


def _node(number: int, node: dict[str, Any], facts: dict[str, Any], interface: str | None) -> Node:
    """Return the description of a node for the placement.

    Args:
        number: rank of the node.
        node: the node as Ray lists it.
        facts: the answer of :func:`rlcore_ray.node_probe.describe`.
        interface: `cluster.network_interface`.
    """
    resources = node["Resources"]
    gpus = int(resources.get("GPU", 0))
    visible = facts["devices"]
    devices = [str(device) for device in range(gpus)] if visible is None else visible.split(",")
    return Node(
        cpus=int(resources.get("CPU", 0)),
        gpus=gpus,
        memory=facts["memory"],
        gpu_memory=facts["gpu_memory"] if gpus else 0,
        name=f"{facts['host']}, {node['NodeManagerAddress']}",
        labels={
            name: value for name, value in node["Labels"].items() if not name.startswith(RAY_PREFIX)
        },
        id=node["NodeID"],
        devices=tuple(devices[:gpus]),
        interface=_interface(number, node["NodeManagerAddress"], facts["interfaces"], interface),
    )


def _interface(
    number: int, address: str, interfaces: Mapping[str, Sequence[str]], configured: str | None
) -> str:
    """Return the network interface of a node: the configured one, else that of its address.

    The result is empty if no interface has the address.

    Raises:
        PlacementError: the node does not have the configured interface.
    """
    if configured is not None:
        if configured not in interfaces:
            raise PlacementError(
                f"cluster.network_interface={configured!r}: node {number} ({address}) has no such "
                f"network interface; it has {', '.join(interfaces)}"
            )
        return configured
    known = _addresses(address)
    return next((name for name, own in interfaces.items() if known & set(own)), "")


def _addresses(node: str) -> set[str]:
    """Return the addresses of a node that other nodes can reach.

    Args:
        node: its address, or its name (`ray start --node-ip-address=NAME`).
    """
    try:
        addresses = {str(place[0]) for *_, place in socket.getaddrinfo(node, None)}
    except OSError:
        return {node}
    local = {address for address in addresses if address.startswith("127.") or address == "::1"}
    return {node} | (addresses - local)


def _require_same_versions(facts: Sequence[dict[str, Any]]) -> None:
    """Require one version of Python and of all our packages, because workers exchange objects.

    Raises:
        PlacementError: names what differs, and which node has which version.
    """
    differences = []
    for name, own in _versions(node_probe.describe()).items():
        found = [_versions(node).get(name, "none") for node in facts]
        if any(version != own for version in found):
            nodes = ", ".join(f"node {number} {version}" for number, version in enumerate(found))
            differences.append(f"{name}: {own} here, {nodes}")
    if differences:
        raise PlacementError(
            f"all nodes must have the same versions, got {'; '.join(differences)}",
            hint="install the same on every node, then start Ray there anew (docs/cluster.md)",
        )


def _versions(facts: dict[str, Any]) -> dict[str, str]:
    """Return the versions that must be the same on all nodes, by name."""
    return {"Python": ".".join(facts["python"].split(".")[:2]), **facts["versions"]}
