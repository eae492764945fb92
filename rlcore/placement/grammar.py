"""Parse `cluster.component_placement`. Pure: needs the number of ranks, but no machine.

    component_placement := { names : value }      names := name ("," name)*
    value    := rankmap | { node_group: label | "l1,l2" | [..], placement: rankmap }
    rankmap  := part ("," part)*      part := ranks [":" process_ranks]
    ranks    := "all" | int | a-b (inclusive)     process_ranks := int | a-b

A part assigns its resource ranks to its processes in order. With more resources than processes each
process owns several; with more processes than resources several processes share one. For example,
`0-1:0-3,3-5,7-10:7-14` puts processes 0-3 on resources 0-1 (two each), 4-6 on 3, 4 and 5, and 7-14
on 7-10 (two each).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.contracts.errors import PlacementError, choices_message

COMPONENTS = ("env", "rollout", "actor")
KEY = "cluster.component_placement"
_RANKS = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_GROUP_KEYS = {"node_group", "placement"}
# YAML 1.1 reads an unquoted 4:0 as a number in base 60; the smallest such number is 1:00.
_BASE_60 = 60


@dataclass(frozen=True)
class Process:
    """One process of a component.

    Attributes:
        rank: rank within the component, from 0.
        resources: global ranks of the accelerators (or CPU cores) that it owns or shares,
            ascending.
        groups: labels of the node groups that its entry names.
    """

    rank: int
    resources: tuple[int, ...]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """A parsed placement: the processes of every component, by rank."""

    processes: Mapping[str, tuple[Process, ...]]


def parse(mapping: Any, total: int, groups: Mapping[str, Sequence[int]] | None = None) -> Placement:
    """Parse a component placement.

    Args:
        mapping: as in the configuration, e.g. `{"env": "0-3", "rollout": "4-7", "actor": "0-7"}`.
        total: number of resource ranks of the cluster.
        groups: `{label of a node group: global resource ranks of its nodes}`. Ranks in an entry
            with `node_group` count within that group.

    Raises:
        PlacementError: the placement is invalid. The message names the entry and part, the value
            and what is allowed.
    """
    if not isinstance(mapping, Mapping):
        raise PlacementError(
            f"{KEY} must map component names to ranks, got {mapping!r}",
            hint="for example {'env,rollout,actor': all}",
        )
    entries = [(name, value) for names, value in mapping.items() for name in _names(names)]
    for name in COMPONENTS:
        count = [entry_name for entry_name, _ in entries].count(name)
        if count != 1:
            problem = "is missing" if count == 0 else f"appears in {count} entries"
            raise PlacementError(
                f"{KEY}: component {name!r} {problem}; each of {', '.join(COMPONENTS)} must "
                "appear in exactly one entry"
            )
    return Placement(
        {name: _processes(name, value, total, groups or {}) for name, value in entries}
    )


def parse_ranks(text: str, where: str, total: int) -> range:
    """Parse `int | a-b | all` into a range of ranks in [0, total).

    Raises:
        PlacementError: the text has another form, descends or is out of range. The message begins
            with `where`.
    """
    if text == "all":
        if total == 0:
            raise PlacementError(f"{where}: 'all' selects nothing: there are no ranks")
        return range(total)
    ranks = _range(text, where, "'all', a number or a-b")
    if ranks.stop > total:
        raise PlacementError(f"{where}: rank {ranks.stop - 1} is out of range; {_allowed(total)}")
    return ranks


# -- one entry ------------------------------------------------------------------------------


def _names(names: Any) -> list[str]:
    components = [name.strip() for name in str(names).split(",")]
    for name in components:
        if name not in COMPONENTS:
            raise PlacementError(
                f"{KEY}: unknown component {name!r} in {str(names)!r}"
                f"{choices_message(name, COMPONENTS)}"
            )
    return components


def _processes(
    name: str, value: Any, total: int, groups: Mapping[str, Sequence[int]]
) -> tuple[Process, ...]:
    where = f"{KEY}.{name}"
    if not isinstance(value, Mapping):
        return _rankmap(value, where, total)
    if set(value) != _GROUP_KEYS:
        raise PlacementError(
            f"{where}: a mapping must have the keys node_group and placement, got "
            f"{', '.join(map(str, value)) or 'none'}"
        )
    labels = _labels(value["node_group"])
    members = _members(labels, where, groups)
    return tuple(
        Process(process.rank, tuple(members[rank] for rank in process.resources), labels)
        for process in _rankmap(value["placement"], where, len(members))
    )


def _labels(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return tuple(label.strip() for item in items for label in str(item).split(","))


def _members(labels: Sequence[str], where: str, groups: Mapping[str, Sequence[int]]) -> list[int]:
    """Return the global ranks of the named groups, in the order of the groups."""
    members: list[int] = []
    for label in labels:
        if label not in groups:
            none = "none is defined in cluster.node_groups"
            raise PlacementError(
                f"{where}: unknown node_group {label!r}{choices_message(label, groups, none=none)}"
            )
        members += groups[label]
    label_list = ", ".join(labels)
    if not members:
        problem = "has no ranks" if label_list else "must name at least one group"
        raise PlacementError(
            f"{where}: node_group {problem}, got {label_list!r}",
            hint="if its nodes have no accelerators, ignore_hardware: true in cluster.node_groups "
            "makes their cores its ranks",
        )
    if len(set(members)) != len(members):
        raise PlacementError(f"{where}: the node groups {label_list!r} overlap")
    return members


def _rankmap(value: Any, where: str, total: int) -> tuple[Process, ...]:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise PlacementError(f"{where} must be ranks such as all, 0, 0-3 or 0-3:0-7, got {value!r}")
    if isinstance(value, int) and value >= max(total, _BASE_60):
        raise PlacementError(
            f"{where}: rank {value} is out of range; {_allowed(total)}",
            hint=f"YAML reads an unquoted {value // 60}:{value % 60} as the number {value}; "
            f"write '{value // 60}:{value % 60}'",
        )
    processes: list[Process] = []
    last_resource = last_process = -1
    for text in str(value).split(","):
        part = f"{where}: part {text.strip()!r}" + (f" of {value!r}" if "," in str(value) else "")
        before, colon, after = text.partition(":")
        resources = parse_ranks(before.strip(), part, total)
        if resources.start <= last_resource:
            raise PlacementError(
                f"{part}: resource ranks must ascend without repeats, but {resources.start} "
                f"comes after {last_resource}"
            )
        if colon:
            ranks = _range(after.strip(), part, "a number or a-b after the colon")
        else:
            ranks = range(last_process + 1, last_process + 1 + len(resources))
        processes += _assign(resources, ranks, part)
        last_resource = resources.stop - 1
        last_process = max(last_process, ranks.stop - 1)
    return _by_rank(processes, f"{where}: {value!r}")


def _range(text: str, where: str, allowed: str) -> range:
    match = _RANKS.fullmatch(text)
    if match is None:
        raise PlacementError(f"{where}: ranks must be {allowed}, got {text!r}")
    first = int(match[1])
    last = int(match[2] or match[1])
    if last < first:
        raise PlacementError(f"{where}: a range must ascend, got {text!r}; write {last}-{first}")
    return range(first, last + 1)


def _assign(resources: range, ranks: range, where: str) -> list[Process]:
    """Assign the resources of a part to its processes, in equal blocks."""
    more = max(len(resources), len(ranks))
    fewer = min(len(resources), len(ranks))
    if more % fewer:
        raise PlacementError(
            f"{where}: {len(ranks)} processes on {len(resources)} resources; one number must "
            "divide the other"
        )
    block = more // fewer
    if len(resources) >= len(ranks):
        owned = [tuple(resources[i * block : (i + 1) * block]) for i in range(len(ranks))]
    else:
        owned = [(resources[i // block],) for i in range(len(ranks))]
    return [Process(rank, own) for rank, own in zip(ranks, owned, strict=True)]


def _by_rank(processes: list[Process], where: str) -> tuple[Process, ...]:
    """Order processes by rank, and check that the ranks are 0..N-1, each once."""
    ordered = sorted(processes, key=lambda process: process.rank)
    ranks = [process.rank for process in ordered]
    for expected, rank in enumerate(ranks):
        if rank != expected:
            problem = f"{rank} appears twice" if rank < expected else f"{expected} is missing"
            raise PlacementError(
                f"{where}: process ranks must be 0-{len(ranks) - 1}, each once, but {problem}"
            )
    return tuple(ordered)


def _allowed(total: int) -> str:
    return f"allowed: 0-{total - 1}" if total else "there are no ranks"
