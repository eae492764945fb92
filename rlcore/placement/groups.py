"""Read `cluster.node_groups`: names for sets of nodes, used in placements. Pure.

- label: sim             the name that `node_group:` of a placement refers to
  node_ranks: 1-3        its nodes by number; or
  node_labels: {pool: sim}   by the labels they joined with
  ignore_hardware: true  its ranks are cores, even if its nodes have accelerators
  env_vars: {DISPLAY: ":0"}   set in every process that is placed through it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlcore.contracts.errors import PlacementError, choosing
from rlcore.placement.grammar import parse_ranks
from rlcore.placement.inventory import Inventory

KEY = "cluster.node_groups"
FORM = "{label: NAME, node_ranks: 0-1}"
BY = ("node_ranks", "node_labels")
OPTIONAL = ("ignore_hardware", "env_vars")
_KEYS = ("label", *BY, *OPTIONAL)


@dataclass(frozen=True)
class NodeGroup:
    """Nodes under one name.

    Attributes:
        nodes: their numbers.
        ranks: global ranks that an entry of a placement counts within the group.
        env_vars: set in the processes that are placed through it.
    """

    nodes: tuple[int, ...]
    ranks: tuple[int, ...]
    env_vars: Mapping[str, str] = field(default_factory=dict)


def read_groups(node_groups: Sequence[Any], inventory: Inventory) -> dict[str, NodeGroup]:
    """The groups of a configuration, by label.

    Raises:
        PlacementError: an entry of another form, a node there is not, a label that no node carries.
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
        cores = _flag(entry, where)
        ranks = [r for node in nodes for r in (inventory.cores if cores else inventory.ranks)(node)]
        groups[label] = NodeGroup(tuple(nodes), tuple(ranks), _env_vars(entry, where))
    return groups


def _require_form(entry: Mapping[Any, Any], where: str) -> None:
    for name in entry:
        if name not in _KEYS:
            raise PlacementError(f"{where}: unknown key {name!r}{choosing(str(name), _KEYS)}")
    if sum(name in entry for name in BY) != 1:
        raise PlacementError(
            f"{where} must say which nodes it means, by one of {' and '.join(BY)}, got "
            f"{', '.join(name for name in BY if name in entry) or 'neither'}",
            hint=f"{FORM}, or {{label: NAME, node_labels: {{pool: sim}}}}",
        )


def _nodes(entry: Mapping[Any, Any], where: str, inventory: Inventory) -> list[int]:
    if "node_ranks" in entry:
        nodes: list[int] = []
        for part in str(entry["node_ranks"]).split(","):
            named = f"{where}: node_ranks {part.strip()!r}"
            more = parse_ranks(part.strip(), named, len(inventory.nodes))
            for node in more:
                if node in nodes:
                    raise PlacementError(f"{named}: node {node} appears twice")
            nodes += more
        return nodes
    wanted = entry["node_labels"]
    if not isinstance(wanted, Mapping) or not wanted:
        raise PlacementError(
            f"{where}: node_labels must map labels to values, as in {{pool: sim}}, got {wanted!r}"
        )
    asked = {str(name): str(value) for name, value in wanted.items()}
    nodes = [n for n, node in enumerate(inventory.nodes) if asked.items() <= node.labels.items()]
    if not nodes:
        raise PlacementError(
            f"{where}: no node carries the label {_pairs(asked)}; "
            + "; ".join(
                f"node {n} carries {_pairs(node.labels) or 'none'}"
                for n, node in enumerate(inventory.nodes)
            ),
            hint=f"ray start --labels={_pairs(asked)} on the nodes that are meant",
        )
    return nodes


def _flag(entry: Mapping[Any, Any], where: str) -> bool:
    value = entry.get("ignore_hardware", False)
    if not isinstance(value, bool):
        raise PlacementError(f"{where}: ignore_hardware must be true or false, got {value!r}")
    return value


def _env_vars(entry: Mapping[Any, Any], where: str) -> dict[str, str]:
    value = entry.get("env_vars", {})
    plain = (str, int, float)
    if not isinstance(value, Mapping) or not all(
        isinstance(one, plain) and not isinstance(one, bool) for one in value.values()
    ):
        raise PlacementError(
            f"{where}: env_vars must map names to texts or numbers, as in {{NAME: value}}, got "
            f"{value!r}"
        )
    return {str(name): str(one) for name, one in value.items()}


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())
