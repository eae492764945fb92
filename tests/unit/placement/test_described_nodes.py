"""Machines that are only described: how, and by which commands."""

from __future__ import annotations

import pytest

from rlcore.cli.main import main
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import ConfigError, PlacementError
from rlcore.placement import Inventory, Node, find_inventory, make_plan
from rlcore.placement.described_nodes import read_inventory

GIB = 2**30
LAYOUTS = {
    "shared": (1, "{env: all, rollout: all, actor: all}", (8, 8, 8)),
    "hybrid": (1, "{env: 0-3, rollout: 4-7, actor: 0-7}", (4, 4, 8)),
    "separate": (1, "{env: 0-1, rollout: 2-5, actor: 6-7}", (2, 4, 2)),
    "hybrid on two nodes": (2, "{env: 0-7, rollout: 8-15, actor: 0-15}", (8, 8, 16)),
    "separate on two nodes": (2, "{env: 0-3, rollout: 4-7, actor: 8-15}", (4, 4, 8)),
}


def test_machines_with_accelerators():
    inventory = read_inventory("2x8x80GB")
    assert len(inventory.nodes) == 2 and inventory.total == 16
    # 16 cores and 128 GiB of main memory beside each
    assert inventory.nodes[1] == Node(128, 8, 1024 * GIB, int(79.1 * GIB))
    assert read_inventory("8x80GB").nodes == inventory.nodes[:1]
    assert read_inventory("1x24gb").nodes[0].gpu_memory == 22.5 * GIB
    # what no card is sold as is taken as it is
    assert read_inventory("1x23.5GB").nodes[0].gpu_memory == 23.5 * GIB
    assert read_inventory("1x23.5GB").assumptions == ("128 GiB of main memory for a GPU",)
    assert inventory.assumptions == (
        "79.1 GiB of a card sold as 80 GB",
        *read_inventory("1x1GB").assumptions,
    )


def test_machines_without_accelerators():
    inventory = read_inventory("2x4cpu")
    assert (inventory.kind, inventory.total) == ("CPU", 8)
    assert read_inventory("16cpus").nodes == (Node(16, memory=64 * GIB),)


def test_machines_of_a_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "nodes:\n"
        "  - {cpus: 64, gpus: 4, gpu_memory: 24GB, memory: 0.5TB, name: big}\n"
        "  - {cpus: 32, labels: {pool: sim}, count: 2}\n"
    )
    big = Node(64, 4, 512 * GIB, int(22.5 * GIB), name="big")
    sim = Node(32, labels={"pool": "sim"})
    assert read_inventory(str(path)) == Inventory((big, sim, sim))


@pytest.mark.parametrize(
    "text",
    [
        "8x80", "0x8x80GB", "0cpu", "8x0GB", "missing.yaml",
        "1000000x8x80GB", "99999999999999999999x80GB", "9x999999cpu",
    ],
)  # fmt: skip
def test_an_invalid_inventory_is_refused(refused, text):
    with refused(PlacementError, "cluster.inventory"):
        read_inventory(text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nodes: []", ["nodes"]),
        ("nodes: [7]", ["7"]),
        ("nodes: [{gpu: 1}]", ["'gpu'", "'gpus'"]),
        ("nodes: [{cpus: -1}]", ["cpus", "-1"]),
        ("nodes: [{memory: 80}]", ["memory", "'80'"]),
        ("nodes: [{cpus: 2, count: 0}]", []),
        ("nodes: [{cpus: 64, count: 99999999}]", ["6399999936"]),
    ],
)
def test_an_invalid_inventory_file_is_refused(refused, tmp_path, content, words):
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    with refused(PlacementError, "cluster.yaml", *words):
        read_inventory(str(path))


def test_an_inventory_file_that_is_no_mapping_is_refused(refused, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("- {cpus: 1}")
    with refused(ConfigError, "cluster.yaml"):
        read_inventory(str(path))


def test_described_machines_are_planned_for_but_not_run_on(refused):
    cluster = ClusterConfig(inventory="8x80GB")
    assert find_inventory(cluster, only_look=True) == read_inventory("8x80GB")
    with refused(PlacementError, "cluster.inventory", "8x80GB"):
        find_inventory(cluster)


def test_a_run_on_described_machines_is_refused(capsys, elsewhere):
    words = ["train", "env=toy", "model=toy", "algorithm=ppo", "cluster.inventory=8x80GB"]
    assert main(words) == 2
    assert "--dry-run" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


def test_another_number_of_nodes_is_refused_with_theirs(refused):
    with refused(PlacementError, "cluster.num_nodes=2"):
        make_plan(ClusterConfig(inventory="2x8x80GB"), read_inventory("2x8x80GB"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_printed_layout_is_planned(layout, capsys):
    nodes, placement, processes = LAYOUTS[layout]
    words = [
        f"cluster.component_placement={placement}",
        f"cluster.inventory={nodes}x8x80GB",
        f"cluster.num_nodes={nodes}",
        "env.train.total_num_envs=64",
        "env.eval.total_num_envs=64",
        "actor.micro_batch_size=8",
    ]
    assert main(["train", "env=toy", "model=toy", "algorithm=ppo", *words, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:3]] for line in lines]
    rows = [cell[0] for cell in cells if len(cell) == 2 and cell[1].isdecimal()]
    together = layout == "shared"
    names = ("env", "rollout+actor") if together else ("env", "rollout", "actor")
    assert [rows.count(name) for name in names] == list(processes)[: len(names)]
    assert sum(line.startswith("node ") for line in lines) == nodes
