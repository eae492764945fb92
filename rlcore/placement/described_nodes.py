"""Read `cluster.inventory`, which describes machines to plan for without access to them.

Pure, except that it may read a file.

[NODESx]GPUSxMEMORY    1x24GB, 8x80GB, 2x8x80GB
[NODESx]COREScpu       16cpu, 2x64cpu
FILE.yaml              nodes: [{cpus: 64, gpus: 8, gpu_memory: 80GB, memory: 1TB,
                                labels: {pool: sim}, count: 2}, ...]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import PlacementError, choices_message
from rlcore.placement.inventory import Inventory, Node

KEY = "cluster.inventory"
CPUS_PER_GPU = 16  # usual in GPU servers; an inventory file can state the exact number
GIB_PER_GPU = 128  # main memory
GIB_PER_CPU = 4
USABLE_GIB = {24: 22.5, 40: 39.4, 48: 44.5, 80: 79.1, 141: 139.7}
"""GiB of a card that a program can use, by the card's nominal GB; the smallest value of the models
with that size. Some reserve memory for error correction (A10, L4, L40S), and the driver reserves
several hundred MiB."""
MAX_CORES = 1_000_000  # of all nodes together; planning takes time linear in the number of ranks
GIB = 2**30
UNITS = {"MB": 2**20, "GB": GIB, "TB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(MB|GB|TB)", re.IGNORECASE)
_GPUS = re.compile(r"(?:(\d+)x)?(\d+)x(\d+(?:\.\d+)?(?:MB|GB|TB))", re.IGNORECASE)
_CORES = re.compile(r"(?:(\d+)x)?(\d+)cpus?", re.IGNORECASE)
_KEYS = ("cpus", "gpus", "gpu_memory", "memory", "labels", "name", "count")


def read_inventory(text: str) -> Inventory:
    """Return the machines that `cluster.inventory` describes.

    Raises:
        PlacementError: the text has another form, the file is missing or malformed, or it describes
            no node or too many cores.
    """
    if match := _GPUS.fullmatch(text):
        gpus = int(match[2])
        memory = gpus * GIB_PER_GPU * GIB
        node = Node(gpus * CPUS_PER_GPU, gpus, memory, _card_bytes(match[3], KEY))
        return _uniform_inventory(
            int(match[1] or 1), node, text, f"{GIB_PER_GPU} GiB of main memory for a GPU"
        )
    if match := _CORES.fullmatch(text):
        cores = int(match[2])
        node = Node(cores, memory=cores * GIB_PER_CPU * GIB)
        return _uniform_inventory(
            int(match[1] or 1), node, text, f"{GIB_PER_CPU} GiB of main memory for a core"
        )
    path = Path(text).expanduser()
    names_file = path.suffix in (".yaml", ".yml", ".json")
    if names_file and not path.is_file():
        raise PlacementError(f"{KEY}: there is no file {text!r}", hint=f"{KEY}=8x80GB needs none")
    if not names_file:
        raise PlacementError(
            f"{KEY} must be [NODESx]GPUSxMEMORY, [NODESx]COREScpu or a YAML file of nodes, "
            f"got {text!r}",
            hint="for example 8x80GB, 2x8x80GB or 16cpu",
        )
    entries = read_mapping(path).get("nodes")
    if not isinstance(entries, list) or not entries:
        raise PlacementError(
            f"{KEY}: {path} must hold a list under the key nodes, got {entries!r:.80}",
            hint="nodes: [{cpus: 64, gpus: 8, gpu_memory: 80GB, count: 2}]",
        )
    nodes = tuple(node for entry in entries for node in _nodes(entry, f"{KEY}: {path}"))
    if not nodes:
        raise PlacementError(f"{KEY}: {path} must hold at least one node, got none")
    return Inventory(nodes, assumptions=_card_assumptions(nodes))


def _uniform_inventory(nodes: int, node: Node, text: str, assumption: str) -> Inventory:
    if not nodes or not node.cpus:
        raise PlacementError(f"{KEY} must hold at least one node, one core or GPU, got {text!r}")
    _require_plannable(nodes * node.cpus, f"{KEY} {text!r}")
    return replace(
        Inventory.uniform(nodes, node), assumptions=(*_card_assumptions([node]), assumption)
    )


def _card_assumptions(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the assumptions on the usable memory of the nodes' cards, one sentence each."""
    sizes = {node.gpu_memory for node in nodes}
    return tuple(
        f"{usable:g} GiB of a card sold as {nominal} GB"
        for nominal, usable in USABLE_GIB.items()
        if int(usable * GIB) in sizes
    )


def _require_plannable(cores: int, where: str) -> None:
    if cores > MAX_CORES:
        raise PlacementError(
            f"{where}: a plan can have at most {MAX_CORES} cores, got {cores} "
            f"(a GPU counts as {CPUS_PER_GPU} if the number of cores is not given)"
        )


def _nodes(entry: Any, where: str) -> tuple[Node, ...]:
    if not isinstance(entry, Mapping):
        raise PlacementError(
            f"{where}: a node must be a mapping such as {{cpus: 8}}, got {entry!r}"
        )
    for name in entry:
        if name not in _KEYS:
            raise PlacementError(
                f"{where}: unknown key {name!r} of a node{choices_message(str(name), _KEYS)}"
            )
    count = {name: _whole_number(entry, name, where) for name in ("cpus", "gpus", "count")}
    labels = entry.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise PlacementError(f"{where}: labels must be a mapping, got {labels!r}")
    gpus = count["gpus"] or 0
    cpus = count["cpus"] or gpus * CPUS_PER_GPU or 1
    node = Node(
        cpus,
        gpus,
        memory=_parse_bytes(str(entry["memory"]), where) if "memory" in entry else 0,
        gpu_memory=_card_bytes(str(entry["gpu_memory"]), where) if "gpu_memory" in entry else 0,
        labels={str(name): str(value) for name, value in labels.items()},
        name=str(entry.get("name", "")),
    )
    number = 1 if count["count"] is None else count["count"]
    _require_plannable(number * max(cpus, gpus), where)
    return (node,) * number


def _whole_number(entry: Mapping[Any, Any], name: str, where: str) -> int | None:
    value = entry.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise PlacementError(f"{where}: {name} must be a whole number of 0 or more, got {value!r}")
    return value


def _card_bytes(text: str, where: str) -> int:
    """Return the bytes of a card that a program can use, from its nominal size."""
    size = _parse_bytes(text, where)
    for nominal, usable in USABLE_GIB.items():
        if nominal * GIB == size:
            return int(usable * GIB)
    return size


def _parse_bytes(text: str, where: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise PlacementError(f"{where}: memory must be like 80GB, got {text!r}")
    size = round(float(match[1]) * UNITS[match[2].upper()])
    if not size:
        raise PlacementError(f"{where}: memory must be more than 0, got {text!r}")
    return size
