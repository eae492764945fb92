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


def test_nodes_by_what_they_were_labelled_with():
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
    assert (
        sum(allocation.cpus for name in ("env", "actor") for allocation in plan.allocations(name))
        == 32.0
    )


def test_variables_go_to_who_is_placed_through_the_group():
    groups = [{"label": "sim", "node_ranks": 0, "env_vars": {"MUJOCO_GL": "egl", "N": 1}}]
    plan = plan_for({"env": through("sim", 0), "rollout,actor": 0}, groups, (BIG,))
    assert plan.allocations("env")[0].env_vars == {"MUJOCO_GL": "egl", "N": "1"}
    assert plan.allocations("actor")[0].env_vars == {}
    assert plan.fused


def test_processes_of_other_variables_are_not_one():
    groups = [{"label": "act", "node_ranks": 0, "env_vars": {"FAST": "1"}}]
    plan = plan_for({"env,actor": 0, "rollout": through("act", 0)}, groups, (BIG,))
    assert not plan.fused


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (
            {"node_labels": {"pool": "cpu"}},
            "no node carries the label pool=cpu; node 0 carries pool=gpu,zone=a; node 1 carries "
            "pool=sim",
        ),
        ({"node_labels": "pool"}, "node_labels must map labels to values"),
        ({}, "select nodes by one of node_ranks and node_labels, got neither"),
        ({"node_ranks": 0, "node_labels": {"a": 1}}, "got node_ranks, node_labels"),
        ({"node_ranks": "0-1,1"}, "node_ranks '1': node 1 appears twice"),
        ({"node_rank": 0}, "unknown key 'node_rank'.*Did you mean 'node_ranks'"),
        ({"node_ranks": 0, "ignore_hardware": "yes"}, "must be true or false, got 'yes'"),
        ({"node_ranks": 0, "env_vars": ["A=1"]}, r"env_vars must map names .* got \['A=1'\]"),
    ],
)
def test_bad_groups(group, message):
    with pytest.raises(PlacementError, match=message):
        plan_for({"env,rollout,actor": "all"}, [{"label": "a", **group}])


def test_a_group_without_accelerators_has_no_ranks():
    with pytest.raises(PlacementError, match="env: node_group has no ranks, got 'sim'") as error:
        plan_for(
            {"env": through("sim", 0), "rollout,actor": 0}, [{"label": "sim", "node_ranks": 1}]
        )
    assert "ignore_hardware: true" in str(error.value)


def test_a_process_takes_one_kind():
    groups = [
        {"label": "gpus", "node_ranks": 0},
        {"label": "cores", "node_ranks": 0, "ignore_hardware": True},
    ]
    with pytest.raises(PlacementError, match="env: process 0 would own accelerators and cores"):
        plan_for({"env": through("gpus,cores", "7-8:0"), "rollout,actor": "all"}, groups, (BIG,))


def test_one_process_can_not_have_several_environments():
    groups = [{"label": "sim", "node_ranks": 0, "env_vars": {"A": "1"}}]
    with pytest.raises(PlacementError, match=r"env_vars need a backend with processes"):
        plan_for({"env,rollout,actor": 0}, groups, (BIG,), backend="local")
