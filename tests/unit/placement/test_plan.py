"""Plans: allocations, shares, routes and the checks that need the machines."""

from __future__ import annotations

import sys
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from rlcore.cli.main import main
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError, PluginError
from rlcore.placement import Inventory, Node, make_plan
from rlcore.placement.memory import MemoryNeed
from rlcore.placement.plan import Allocation, parts_of_stage, rollout_rank_of
from rlcore.placement.propose import roles_to_offload
from rlcore.plugins.registry import Registry, load_plugins

EIGHT_GPUS = Node(cpus=32, gpus=8, memory=256 * 2**30, gpu_memory=80 * 2**30)
HYBRID = {"env": "0-3", "rollout": "4-7", "actor": "0-7"}


def plan_for(mapping, inventory, **settings):
    cluster = ClusterConfig(component_placement=mapping, num_nodes=len(inventory.nodes), **settings)
    return make_plan(cluster, inventory)


# -- inventory ----------------------------------------------------------------------------------


def test_a_rank_is_an_accelerator_where_there_is_one():
    inventory = Inventory((Node(cpus=4), Node(cpus=8, gpus=2), Node(cpus=8, gpus=3)))
    assert (inventory.kind, inventory.total) == ("GPU", 5)
    assert [inventory.ranks(node) for node in range(3)] == [range(0), range(0, 2), range(2, 5)]
    places = [inventory.locate(rank) for rank in range(5)]
    assert places == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    # behind the 5 accelerators: 4 cores of node 0, 8 of node 1, 8 of node 2
    cores = [inventory.cores(node) for node in range(3)]
    assert cores == [range(5, 9), range(9, 17), range(17, 25)]
    assert (inventory.locate(16), inventory.is_core(16)) == ((1, 7), True)


def test_a_rank_is_a_core_where_there_is_no_accelerator():
    inventory = Inventory.uniform(2, Node(cpus=3))
    assert (inventory.kind, inventory.total) == ("CPU", 6)
    assert inventory.locate(4) == (1, 1)


def test_this_machine_can_be_planned_for():
    inventory = Inventory.local()
    (node,) = inventory.nodes
    assert inventory.total == (node.gpus or node.cpus) >= 1
    assert node.memory > 2**27
    assert plan_for({"env,rollout,actor": "all"}, inventory).world_size("env") == inventory.total


@pytest.fixture
def nvidia_smi(monkeypatch, tmp_path):
    """`nvidia_smi(commands)` makes the driver's tool a shell script with these commands."""

    def install_script(commands):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{commands}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install_script


def test_hidden_accelerators_do_not_count(monkeypatch, nvidia_smi):
    nvidia_smi("printf '81559\\n40960\\n40960\\n'")
    node = Inventory.local().nodes[0]
    assert (node.gpus, node.gpu_memory) == (3, 40960 * 2**20)
    for visible, count in (("0", 1), ("1,2", 2), ("", 0), ("-1", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert Inventory.local().nodes[0].gpus == count


def test_a_driver_that_fails_means_no_accelerator(nvidia_smi):
    nvidia_smi("echo 'NVIDIA-SMI has failed'\nexit 9")
    assert Inventory.local().nodes[0].gpus == 0


# -- allocations --------------------------------------------------------------------------------


def test_shared_layout_is_fused_and_shares_each_gpu_in_two():
    plan = plan_for({"env,rollout,actor": "all"}, Inventory.uniform(1, EIGHT_GPUS))
    assert plan.fused
    assert [name for name, _ in plan.roles()] == ["env", "rollout+actor"]
    # each GPU: one env process and one fused process; 32 cores / 8 GPUs = 4 cores a GPU
    assert plan.allocations("env") == plan.allocations("actor") == plan.allocations("rollout")
    assert plan.allocations("env")[5] == Allocation(node=0, local_ranks=(5,), cpus=2.0, gpus=0.5)


def test_hybrid_layout_is_not_fused():
    plan = plan_for(HYBRID, Inventory.uniform(1, EIGHT_GPUS))
    assert not plan.fused
    assert [plan.world_size(name) for name in ("env", "rollout", "actor")] == [4, 4, 8]
    assert plan.allocations("rollout")[1] == Allocation(
        node=0, local_ranks=(5,), cpus=2.0, gpus=0.5
    )


def test_separate_layout_has_its_accelerators_alone():
    mapping = {"env": "0-1", "rollout": "2-5", "actor": "6-7"}
    plan = plan_for(mapping, Inventory.uniform(1, EIGHT_GPUS))
    assert plan.allocations("actor")[1] == Allocation(node=0, local_ranks=(7,), cpus=4.0, gpus=1.0)


def test_two_nodes():
    mapping = {"env": "0-7", "rollout": "8-15", "actor": "0-15"}
    plan = plan_for(mapping, Inventory.uniform(2, EIGHT_GPUS))
    assert [allocation.node for allocation in plan.allocations("actor")] == [0] * 8 + [1] * 8
    assert plan.allocations("rollout")[7].local_ranks == (7,)  # rank 15 is number 7 of node 1


def test_same_ranks_in_other_processes_are_not_fused():
    mapping = {"env": "all", "rollout": "all:0", "actor": "all"}
    assert not plan_for(mapping, Inventory.uniform(1, Node(cpus=2))).fused


def test_one_process_over_all_cores():
    plan = plan_for({"env,rollout,actor": "all:0"}, Inventory.uniform(1, Node(cpus=4)))
    assert plan.fused
    # four cores, each shared by the env process and the fused one
    assert plan.allocations("actor") == (
        Allocation(node=0, local_ranks=(0, 1, 2, 3), cpus=2.0, gpus=0.0),
    )


@pytest.mark.parametrize(
    "mapping",
    [
        {"env,rollout,actor": "all"},
        HYBRID,
        {"env": "0-7:0-23", "rollout": "0-5:0-1", "actor": "2-7"},
        {"env": "0:0-2,1-6:3-4", "rollout": "7", "actor": "all:0-15"},
    ],
)
def test_shares_never_exceed_a_node(mapping):
    """Summed exactly, process by process, against a count over every (rank, process) pair."""
    plan = plan_for(mapping, Inventory.uniform(1, EIGHT_GPUS))
    uses = Counter(r for _, processes in plan.roles() for p in processes for r in p.resources)
    for _, processes in plan.roles():
        for process in processes:
            gpus = sum(Fraction(1, uses[rank]) for rank in process.resources)
            assert plan.allocation(process).gpus == pytest.approx(float(gpus))
            assert plan.allocation(process).cpus == pytest.approx(float(4 * gpus))
    total = sum(plan.allocation(p).gpus for _, processes in plan.roles() for p in processes)
    assert total == pytest.approx(len(uses))


# -- routes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_routes_are_balanced_over_all_stages_and_within_each(stages):
    def require_balanced(streams, envs, rollouts):
        count = Counter(rollout_rank_of(e, s, envs, rollouts) for e, s in streams)
        answered = [count[rollout] for rollout in range(rollouts)]
        assert sum(answered) == len(streams)
        assert max(answered) - min(answered) <= 1

    for envs, rollouts in product(range(1, 8), repeat=2):
        require_balanced([(e, s) for s in range(stages) for e in range(envs)], envs, rollouts)
        for stage in range(stages):
            require_balanced([(e, stage) for e in range(envs)], envs, rollouts)


def test_uneven_ranks_by_hand():
    # two env processes of two stages are four streams for four rollout processes
    assert parts_of_stage(2, 2, 4) == 1
    assert [rollout_rank_of(e, s, 2, 4) for s in (0, 1) for e in (0, 1)] == [0, 1, 2, 3]
    # of one stage they are two, each split in two
    assert parts_of_stage(2, 1, 4) == 2
    answers = [rollout_rank_of(e, 0, 2, 4, part=p, parts=2) for p in (0, 1) for e in (0, 1)]
    assert answers == [0, 1, 2, 3]
    # two streams for three rollout processes: six parts, two for each
    assert parts_of_stage(2, 1, 3) == 3
    answers = [rollout_rank_of(e, 0, 2, 3, part=p, parts=3) for p in range(3) for e in (0, 1)]
    assert answers == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_rollout_processes_answer_equally_many_parts_where_stages_are_split(stages):
    for envs, rollouts in product(range(1, 8), repeat=2):
        parts = parts_of_stage(envs, stages, rollouts)
        count = Counter(
            rollout_rank_of(e, s, envs, rollouts, part=p, parts=parts)
            for e, s, p in product(range(envs), range(stages), range(parts))
        )
        assert set(count) == set(range(rollouts))
        if parts > 1:
            assert envs * stages < rollouts
            assert len(set(count.values())) == 1


def test_equal_ranks_talk_to_their_own():
    assert [rollout_rank_of(e, s, 4, 4) for s in (0, 1) for e in range(4)] == [0, 1, 2, 3] * 2


# -- checks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("joined", [1, 3])
def test_another_number_of_nodes_is_refused(refused, joined):
    with refused(PlacementError, "cluster.num_nodes", 2, joined):
        make_plan(ClusterConfig(num_nodes=2), Inventory.uniform(joined, EIGHT_GPUS))


def test_a_process_on_two_nodes_is_refused(refused):
    mapping = {"env,rollout": "all", "actor": "all:0-2"}  # 12 ranks: 4 each; 4-7 spans both
    with refused(PlacementError, "actor", "4-7", "node 1 has 6-11"):
        plan_for(mapping, Inventory.uniform(2, Node(cpus=8, gpus=6)))


def test_node_groups_come_from_the_configuration():
    mapping = {"env": {"node_group": "sim", "placement": "0-3"}, "rollout,actor": "0-7"}
    plan = plan_for(
        mapping,
        Inventory.uniform(2, EIGHT_GPUS),
        node_groups=[{"label": "sim", "node_ranks": 1}],
    )
    assert [allocation.node for allocation in plan.allocations("env")] == [1, 1, 1, 1]
    assert plan.processes("env")[0].resources == (8,)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([{"label": "a", "node_ranks": "0-2"}], ["'a'", "rank 2", "0-1"]),
        ([{"label": "a", "node_ranks": 0}] * 2, ["'a'"]),
        ([{"name": "a"}], ["label", "node_ranks", "name"]),
        (["a"], ["'a'"]),
    ],
    ids=["out of range", "label twice", "no label", "no mapping"],
)
def test_invalid_node_groups_are_refused(refused, groups, words):
    with refused(PlacementError, "cluster.node_groups", *words):
        plan_for({"env,rollout,actor": "all"}, Inventory.uniform(2, EIGHT_GPUS), node_groups=groups)


@pytest.mark.parametrize(
    ("node", "ranks"), [(Node(cpus=2), "2 CPU cores"), (Node(cpus=8, gpus=1), "1 GPU")]
)
def test_a_rank_out_of_range_is_refused_with_the_ranks_of_the_machine(refused, node, ranks):
    command = "'cluster.component_placement={env,rollout,actor: all}'"
    with refused(PlacementError, "rank 3", ranks, command):
        plan_for({"env": "0-3", "rollout,actor": "all"}, Inventory((node,)))


@pytest.fixture
def halves(install):
    """A plugin that registers the placement `halves`: env processes on one, the others beside."""
    install(
        "acme",
        "acme_placement",
        """
        from rlcore import hookimpl
        from rlcore.contracts.specs import ComponentSpec

        RLCORE_API = (0, 1)


        @hookimpl
        def rlcore_components():
            return [ComponentSpec("placement", "halves", "acme_placement:halves")]


        def halves(inventory, cluster):
            half = inventory.total // 2
            return {"env": f"0-{half - 1}", "rollout,actor": f"{half}-{inventory.total - 1}"}
        """,
    )
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()


def test_a_plugin_registers_a_placement(halves):
    cluster = ClusterConfig(component_placement="halves")
    plan = make_plan(cluster, Inventory.uniform(1, EIGHT_GPUS))
    assert [p.resources for p in plan.processes("actor")] == [(4,), (5,), (6,), (7,)]
    local_ranks = [allocation.local_ranks for allocation in plan.allocations("env")]
    assert local_ranks == [(0,), (1,), (2,), (3,)]


def test_a_registered_placement_is_chosen_on_the_command_line(halves, capsys):
    words = ["cluster.component_placement=halves", "cluster.inventory=2x80GB", "--dry-run"]
    assert main(["collect", "env=toy", *words]) == 0
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if "rollout+actor" in line]
    assert [word.strip() for word in row.split("│")][2:5] == ["0", "0", "1"]  # process, node, GPU


def test_a_placement_that_no_plugin_registers_is_refused(refused):
    cluster = ClusterConfig(component_placement="half_each")
    with refused(PluginError, "half_each"):
        make_plan(cluster, Inventory.uniform(1, EIGHT_GPUS), Registry.load(plugins=[]))


# -- many machines ------------------------------------------------------------------------------


def functions_called(nodes: int) -> int:
    """Return how many calls planning a run on `nodes` machines and their memory takes."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    half = 4 * nodes
    mapping = {"env,actor": f"0-{2 * half - 1}", "rollout": f"{half}-{2 * half - 1}"}
    memory = {
        "env": MemoryNeed(),
        "rollout": MemoryNeed(2, acts=True),
        "actor": MemoryNeed(2, 3, learns=True),
    }
    sys.setprofile(note)
    try:
        plan = plan_for(mapping, Inventory.uniform(nodes, EIGHT_GPUS))
        allocations = [*plan.allocations("env"), *plan.allocations("actor")]
        allocations += plan.allocations("rollout")
        best = roles_to_offload(plan, memory)
    finally:
        sys.setprofile(None)
    assert len(allocations) == 20 * nodes
    assert best == ("rollout", "actor")  # 2 and 5 in turn; 7 if either of them stays
    return count


def test_planning_grows_as_the_machines_do():
    """Not as their square or cube: hundreds of accelerators are planned in under a second."""
    assert functions_called(16) < 5 * functions_called(4)
