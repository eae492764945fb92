"""Read `cluster.node_groups`: named sets of nodes that placements refer to. Pure.

- label: sim                  name that `node_group:` of a placement refers to
  node_ranks: 1-3             the nodes by number; or
  node_labels: {pool: sim}    by the labels with which they joined the cluster
  ignore_hardware: true       ranks of the group are CPU cores even where nodes have accelerators
  env_vars: {DISPLAY: ":0"}   environment variables of every process placed through the group
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlcore.contracts.errors import PlacementError, choices_message
from rlcore.placement.grammar import parse_ranks
from rlcore.placement.inventory import Inventory

KEY = "cluster.node_groups"
FORM = "{label: NAME, node_ranks: 0-1}"
BY = ("node_ranks", "node_labels")
OPTIONAL = ("ignore_hardware", "env_vars")
_KEYS = ("label", *BY, *OPTIONAL)


@dataclass(frozen=True)
class NodeGroup:
    """A named set of nodes.

    Attributes:
        nodes: numbers of the nodes.
        ranks: global ranks of the group, which entries of a placement count from 0.
        env_vars: environment variables of the processes that are placed through the group.
    """

    nodes: tuple[int, ...]
    ranks: tuple[int, ...]
    env_vars: Mapping[str, str] = field(default_factory=dict)


def read_groups(node_groups: Sequence[Any], inventory: Inventory) -> dict[str, NodeGroup]:
    """Return the node groups of a configuration, by label.

    Raises:
        PlacementError: an entry has another form, names a node that does not exist, or requires a
            label that no node has.
    """
    groups: dict[str, NodeGroup] = {}
    for entry in node_groups:
        if not isinstance(entry, Mapping) or "label" not in entry:
            raise PlacementError(f"{KEY} must be a list of {FORM}, got the entry {entry!r}")
        label = str(entry["label"])
        where = f"{KEY}, label {label!r}"
        _require_form(entry, where)
        if label in groups:
            raise PlacementError(f"{KEY}: label {label!r} appears twice")
        nodes = _nodes(entry, where, inventory)
        ranks_of = inventory.cores if _ignores_hardware(entry, where) else inventory.ranks
        ranks = tuple(rank for node in nodes for rank in ranks_of(node))
        groups[label] = NodeGroup(tuple(nodes), ranks, _env_vars(entry, where))
    return groups


def _require_form(entry: Mapping[Any, Any], where: str) -> None:
    for name in entry:
        if name not in _KEYS:
            raise PlacementError(
                f"{where}: unknown key {name!r}{choices_message(str(name), _KEYS)}"
            )
    if sum(name in entry for name in BY) != 1:
        raise PlacementError(
            f"{where} must select nodes by one of {' and '.join(BY)}, got "
            f"{', '.join(name for name in BY if name in entry) or 'neither'}",
            hint=f"{FORM}, or {{label: NAME, node_labels: {{pool: sim}}}}",
        )


def _nodes(entry: Mapping[Any, Any], where: str, inventory: Inventory) -> list[int]:
    if "node_ranks" in entry:
        nodes: list[int] = []
        for part in str(entry["node_ranks"]).split(","):
            part_name = f"{where}: node_ranks {part.strip()!r}"
            ranks = parse_ranks(part.strip(), part_name, len(inventory.nodes))
            for node in ranks:
                if node in nodes:
                    raise PlacementError(f"{part_name}: node {node} appears twice")
            nodes += ranks
        return nodes
    value = entry["node_labels"]
    if not isinstance(value, Mapping) or not value:
        raise PlacementError(
            f"{where}: node_labels must map labels to values, as in {{pool: sim}}, got {value!r}"
        )
    labels = {str(name): str(text) for name, text in value.items()}
    nodes = [n for n, node in enumerate(inventory.nodes) if labels.items() <= node.labels.items()]
    if not nodes:
        raise PlacementError(
            f"{where}: no node carries the label {_pairs(labels)}; "
            + "; ".join(
                f"node {n} carries {_pairs(node.labels) or 'none'}"
                for n, node in enumerate(inventory.nodes)
            ),
            hint=f"ray start --labels={_pairs(labels)} on the nodes that belong to the group",
        )
    return nodes


def _ignores_hardware(entry: Mapping[Any, Any], where: str) -> bool:
    value = entry.get("ignore_hardware", False)
    if not isinstance(value, bool):
        raise PlacementError(f"{where}: ignore_hardware must be true or false, got {value!r}")
    return value


def _env_vars(entry: Mapping[Any, Any], where: str) -> dict[str, str]:
    value = entry.get("env_vars", {})
    scalars = (str, int, float)
    if not isinstance(value, Mapping) or not all(
        isinstance(item, scalars) and not isinstance(item, bool) for item in value.values()
    ):
        raise PlacementError(
            f"{where}: env_vars must map names to texts or numbers, as in {{NAME: value}}, got "
            f"{value!r}"
        )
    return {str(name): str(item) for name, item in value.items()}


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())
