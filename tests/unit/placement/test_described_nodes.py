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


def test_accelerators():
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


def test_cores():
    inventory = read_inventory("2x4cpu")
    assert (inventory.kind, inventory.total) == ("CPU", 8)
    assert read_inventory("16cpus").nodes == (Node(16, memory=64 * GIB),)


def test_a_file(tmp_path):
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
    ("text", "message"),
    [
        ("8x80", "must be .NODESx.GPUSxMEMORY.*got '8x80'"),
        ("0x8x80GB", "at least one node"),
        ("0cpu", "at least one node"),
        ("missing.yaml", "there is no file 'missing.yaml'"),
    ],
)
def test_bad_words(text, message):
    with pytest.raises(PlacementError, match=message):
        read_inventory(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- {cpus: 1}", "must hold a mapping of keys"),
        ("nodes: []", "must hold a list under the key nodes, got"),
        ("nodes: [7]", "a node must be a mapping such as .cpus: 8., got 7"),
        ("nodes: [{gpu: 1}]", "unknown key 'gpu' of a node.*Did you mean 'gpus'"),
        ("nodes: [{cpus: -1}]", "cpus must be a whole number of 0 or more, got -1"),
        ("nodes: [{memory: 80}]", "memory must be like 80GB, got '80'"),
        ("nodes: [{cpus: 2, count: 0}]", "at least one node, got none"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    with pytest.raises((PlacementError, ConfigError), match=message):
        read_inventory(str(path))


def test_nothing_runs_on_them():
    cluster = ClusterConfig(inventory="8x80GB")
    assert find_inventory(cluster, only_look=True) == read_inventory("8x80GB")
    with pytest.raises(PlacementError, match="nothing can run, got '8x80GB'"):
        find_inventory(cluster)


def test_a_run_on_them_is_refused(capsys, elsewhere):
    words = ["train", "env=toy", "model=toy", "algorithm=ppo", "cluster.inventory=8x80GB"]
    assert main(words) == 2
    assert "add --dry-run" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


def test_the_number_of_nodes_must_be_theirs():
    with pytest.raises(PlacementError, match="num_nodes is 1, but 2 joined") as error:
        make_plan(ClusterConfig(inventory="2x8x80GB"), read_inventory("2x8x80GB"))
    assert "cluster.num_nodes=2" in str(error.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_printed_layout_is_planned(layout, capsys):
    nodes, placement, processes = LAYOUTS[layout]
    words = [
        "env=toy", "model=toy", "algorithm=ppo", f"cluster.component_placement={placement}",
        f"cluster.inventory={nodes}x8x80GB", f"cluster.num_nodes={nodes}",
        "env.train.total_num_envs=64", "env.eval.total_num_envs=64", "actor.micro_batch_size=8",
    ]  # fmt: skip
    assert main(["train", *words, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:3]] for line in lines]
    rows = [cell[0] for cell in cells if len(cell) == 2 and cell[1].isdecimal()]
    together = layout == "shared"
    names = ("env", "rollout+actor") if together else ("env", "rollout", "actor")
    assert [rows.count(name) for name in names] == list(processes)[: len(names)]
    assert sum(line.startswith("node ") for line in lines) == nodes


@pytest.mark.parametrize("text", ["1000000x8x80GB", "99999999999999999999x80GB", "9x999999cpu"])
def test_more_than_can_be_planned_is_refused_at_once(text):
    with pytest.raises(PlacementError, match=f"{text}.*at most 1000000 cores"):
        read_inventory(text)


def test_a_file_may_not_hold_more_either(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: [{cpus: 64, count: 99999999}]")
    with pytest.raises(PlacementError, match=r"cluster.yaml.*got 6399999936 "):
        read_inventory(str(path))


def test_accelerators_without_memory_are_refused():
    with pytest.raises(PlacementError, match="more than 0, got '0GB'"):
        read_inventory("8x0GB")
