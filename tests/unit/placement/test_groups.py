"""Groups of nodes: by number, by label, with variables, and as cores."""

from __future__ import annotations

import pytest

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError
from rlcore.placement import Inventory, Node, make_plan

SIM = Node(cpus=16, labels={"pool": "sim"})
BIG = Node(cpus=32, gpus=8, labels={"pool": "gpu", "zone": "a"})


def plan_for(mapping, groups, nodes=(BIG, SIM), **settings):
    cluster = ClusterConfig(
        component_placement=mapping, node_groups=groups, num_nodes=len(nodes), **settings
    )
    return make_plan(cluster, Inventory(nodes))


def through(label, ranks):
    return {"node_group": label, "placement": ranks}


def test_a_group_selects_nodes_by_their_labels():
    groups = [{"label": "late", "node_labels": {"pool": "gpu", "zone": "a"}}]
    small = Node(cpus=8, gpus=2, labels={"pool": "gpu"})
    plan = plan_for({"env,rollout": 0, "actor": through("late", "0-1")}, groups, (small, BIG))
    # node 0 has ranks 0-1, node 1 ranks 2-9
    assert [p.resources for p in plan.processes("actor")] == [(2,), (3,)]
    assert [allocation.node for allocation in plan.allocations("actor")] == [1, 1]


def test_cores_of_nodes_without_accelerators():
    groups = [{"label": "sim", "node_labels": {"pool": "sim"}, "ignore_hardware": True}]
    plan = plan_for({"env": through("sim", "0-15:0-3"), "rollout,actor": "all"}, groups)
    allocations = plan.allocations("env")
    assert [allocation.node for allocation in allocations] == [1] * 4
    assert allocations[1].local_ranks == (4, 5, 6, 7)
    assert (allocations[1].cpus, allocations[1].gpus, plan.cores(allocations[1])) == (4.0, 0.0, 4)
    # the GPUs keep all 32 cores of their node
    assert plan.allocations("actor")[0].cpus == 4.0


def test_cores_beside_accelerators_are_taken_from_them():
    groups = [{"label": "host", "node_ranks": 0, "ignore_hardware": True}]
    plan = plan_for({"env": through("host", "0-7"), "rollout,actor": "all"}, groups, (BIG,))
    # 32 cores, 8 of them env processes: 24 for 8 GPUs
    assert plan.allocations("actor")[5].cpus == 3.0
    assert plan.cores(plan.allocations("actor")[5]) == 3
    allocations = [*plan.allocations("env"), *plan.allocations("actor")]
    assert sum(allocation.cpus for allocation in allocations) == 32.0


def test_variables_of_a_group_reach_the_processes_placed_through_it():
    groups = [{"label": "sim", "node_ranks": 0, "env_vars": {"MUJOCO_GL": "egl", "N": 1}}]
    plan = plan_for({"env": through("sim", 0), "rollout,actor": 0}, groups, (BIG,))
    assert plan.allocations("env")[0].env_vars == {"MUJOCO_GL": "egl", "N": "1"}
    assert plan.allocations("actor")[0].env_vars == {}
    assert plan.fused


def test_processes_with_other_variables_are_not_fused():
    groups = [{"label": "act", "node_ranks": 0, "env_vars": {"FAST": "1"}}]
    plan = plan_for({"env,actor": 0, "rollout": through("act", 0)}, groups, (BIG,))
    assert not plan.fused


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"node_labels": {"pool": "cpu"}}, ["pool=cpu", "pool=gpu,zone=a", "pool=sim"]),
        ({"node_labels": "pool"}, ["node_labels"]),
        ({}, ["node_ranks", "node_labels"]),
        ({"node_ranks": 0, "node_labels": {"a": 1}}, ["node_ranks, node_labels"]),
        ({"node_ranks": "0-1,1"}, ["node_ranks", "node 1"]),
        ({"node_rank": 0}, ["'node_rank'", "'node_ranks'"]),
        ({"node_ranks": 0, "ignore_hardware": "yes"}, ["ignore_hardware", "'yes'"]),
        ({"node_ranks": 0, "env_vars": ["A=1"]}, ["env_vars", "['A=1']"]),
    ],
    ids=lambda value: " ".join(value) or "no key",
)
def test_invalid_groups_are_refused(refused, group, words):
    with refused(PlacementError, *words):
        plan_for({"env,rollout,actor": "all"}, [{"label": "a", **group}])


SIM_GROUP = {"label": "sim", "node_ranks": 1}
GPUS_AND_CORES = [
    {"label": "gpus", "node_ranks": 0},
    {"label": "cores", "node_ranks": 0, "ignore_hardware": True},
]


def test_a_group_without_accelerators_has_no_ranks(refused):
    with refused(PlacementError, "env", "'sim'", "ignore_hardware: true"):
        plan_for({"env": through("sim", 0), "rollout,actor": 0}, [SIM_GROUP])


def test_a_process_on_accelerators_and_cores_is_refused(refused):
    mapping = {"env": through("gpus,cores", "7-8:0"), "rollout,actor": "all"}
    with refused(PlacementError, "env", "process 0"):
        plan_for(mapping, GPUS_AND_CORES, (BIG,))


def test_variables_of_a_group_need_a_backend_with_processes(refused):
    groups = [{"label": "sim", "node_ranks": 0, "env_vars": {"A": "1"}}]
    with refused(PlacementError, "env_vars"):
        plan_for({"env,rollout,actor": 0}, groups, (BIG,), backend="local")
