"""New places for env workers whose node has left. Ranks and shares are worked out by hand.

Over real nodes: tests/e2e/test_node_faults.py.
"""

from __future__ import annotations

from dataclasses import replace

import yaml
from rlcore_ray.relocate import Irreplaceable, reallocate, relocate

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Inventory, Node, make_plan
from rlcore.placement.plan import Allocation
from rlcore.workers.worker_specs import Member, WorkerSpecs

NODES = (Node(cpus=3, name="a", id="1"), Node(cpus=2, name="b", id="2"))


def on(node: int, rank: int) -> Member:
    # what a worker is made of does not matter here
    return Member(None, Allocation(node=node, local_ranks=(rank,), cpus=1.0, gpus=0.0))  # type: ignore[arg-type]


def worker_specs(*env: Member, policy: Member) -> WorkerSpecs:
    return WorkerSpecs(ClusterConfig(), {"env": env, "rollout+actor": (policy,)}, nodes=NODES)


def test_only_those_whose_node_is_gone_move():
    """Node 0 has cores 1 and 2 left; the worker that died on it stays there."""
    before = worker_specs(on(0, 1), on(1, 0), on(1, 1), policy=on(0, 0))
    members, (incident,) = relocate(before, [0, 1], gone={1})
    assert [(member.allocation.node, member.allocation.local_ranks) for member in members] == [
        (0, (1,)),
        (0, (2,)),
        (1, (1,)),  # it was not found lost yet
    ]
    for named in ("node 1 (b)", "env worker 1", "node 0 (a)"):
        assert named in incident
    assert before.members["env"][1].allocation.node == 1


def test_without_room_the_node_is_named(refused):
    before = worker_specs(on(0, 1), on(0, 2), on(1, 0), policy=on(0, 0))
    with refused(Irreplaceable, "node 1 (b)", "env worker 2", "rlcore resume RUN"):
        relocate(before, [2], gone={1})


def test_two_that_move_take_different_ranks():
    members, _ = relocate(worker_specs(on(1, 0), on(1, 1), policy=on(0, 2)), [0, 1], gone={1})
    assert [member.allocation.local_ranks for member in members] == [(0,), (1,)]


def test_a_policy_does_not_move(refused):
    before = worker_specs(on(0, 0), policy=on(1, 1))
    with refused(Irreplaceable, "node 1 (b)", "rollout+actor worker 0"):
        relocate(before, [], gone={1})


CORES = (Node(cpus=4), Node(cpus=2), Node(cpus=4))


def allocations(placement, nodes, **more):
    """Allocations of the env processes, and those of the others."""
    mapping = yaml.safe_load(placement)
    cluster = ClusterConfig(num_nodes=len(nodes), component_placement=mapping, **more)
    plan = make_plan(cluster, Inventory(nodes))
    others = [plan.allocation(p) for name, each in plan.roles() if name != "env" for p in each]
    return list(plan.allocations("env")), others


def test_a_process_takes_ranks_that_nobody_has():
    # env processes on core 1 of node 1 and on core 0 of node 2; a policy on core 0 of node 0
    (first, second), others = allocations("{env: '5,6', rollout: 0, actor: 0}", CORES)
    assert (first.node, first.local_ranks) == (1, (1,))
    moved = reallocate(first, [second, *others], CORES, [0, 2])
    assert moved == replace(first, node=0, local_ranks=(1,))
    # core 0 of node 2 is the second one's
    assert reallocate(first, [second, *others], CORES, [2]) == replace(
        first, node=2, local_ranks=(1,)
    )


def test_a_process_without_room_is_not_moved():
    # an env process of two cores on node 1; node 0 has one left, node 2 has two
    (env,), others = allocations("{env: '4-5:0', rollout: 0-2, actor: 0-2}", CORES)
    assert reallocate(env, others, CORES, [0]) is None
    assert reallocate(env, others, CORES, [0, 2]) == replace(env, node=2, local_ranks=(0, 1))
    assert reallocate(env, others, CORES, []) is None


def test_a_share_needs_a_share():
    # two env processes and a policy share core 0 of node 0: each has a third
    placement = "{env: '0:0-1,4:2', rollout: 0, actor: 0}"
    (one, two, alone), others = allocations(placement, CORES)
    assert one.cpus == 1 / 3 and alone.cpus == 1.0
    # a third fits on the core that two thirds are taken of: the free one comes first, though
    assert reallocate(one, [alone, *others], CORES[:1], [0]).local_ranks == (0,)
    # a whole core does not fit there
    full = (Node(cpus=1),)
    assert reallocate(alone, [one, *others], full, [0]) is None
    assert reallocate(two, [one, *others], full, [0]).local_ranks == (0,)


def test_a_group_is_not_left():
    groups = [{"label": "sim", "node_ranks": "1-2"}]
    placement = "{env: {node_group: sim, placement: 0}, 'rollout,actor': 0}"
    (env,), others = allocations(placement, CORES, node_groups=groups)
    assert env.node == 1 and env.allowed_nodes == (1, 2)
    assert reallocate(env, others, CORES, [0]) is None
    assert reallocate(env, others, CORES, [0, 2]).node == 2


def test_accelerators_are_exchanged_for_accelerators():
    nodes = (Node(cpus=8, gpus=2), Node(cpus=8, gpus=2), Node(cpus=64))
    (env,), others = allocations("{env: 2, rollout: 0, actor: 0}", nodes)
    # rank 1 of node 0 is nobody's; the cores of node 2 don't count
    assert reallocate(env, others, nodes, [2]) is None
    assert reallocate(env, others, nodes, [2, 0]) == replace(env, node=0, local_ranks=(1,))
