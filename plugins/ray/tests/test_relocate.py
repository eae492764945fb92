"""Env workers whose node has left, and what is said of it; over real nodes:
tests/e2e/test_node_faults.py."""

from __future__ import annotations

import pytest
from rlcore_ray.relocate import Irreplaceable, relocate

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Node
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
    members, said = relocate(before, [0, 1], gone={1})
    assert [(one.allocation.node, one.allocation.local_ranks) for one in members] == [
        (0, (1,)),
        (0, (2,)),
        (1, (1,)),  # it was not found lost yet
    ]
    assert said == ["node 1 (b) left the cluster, with env worker 1, which goes on on node 0 (a)"]
    assert before.members["env"][1].allocation.node == 1


def test_without_room_the_node_is_named():
    before = worker_specs(on(0, 1), on(0, 2), on(1, 0), policy=on(0, 0))
    with pytest.raises(Irreplaceable) as error:
        relocate(before, [2], gone={1})
    assert error.value.message == (
        "node 1 (b) left the cluster, with env worker 2, and no other node has room for it"
    )
    assert "rlcore resume RUN" in (error.value.hint or "")


def test_two_that_move_take_different_ranks():
    members, _ = relocate(worker_specs(on(1, 0), on(1, 1), policy=on(0, 2)), [0, 1], gone={1})
    assert [one.allocation.local_ranks for one in members] == [(0,), (1,)]


def test_a_policy_does_not_move():
    before = worker_specs(on(0, 0), policy=on(1, 1))
    with pytest.raises(Irreplaceable) as error:
        relocate(before, [], gone={1})
    assert error.value.message == "node 1 (b) left the cluster, with rollout+actor worker 0"
