"""Routes of weights: their senders, readers and transports."""

from __future__ import annotations

import pytest

from rlcore.placement.plan import Allocation
from rlcore.placement.routes import WeightRoute, describe_transports, plan_weight_routes


def cores(*nodes):
    return [Allocation(node, (rank,), 1.0, 0.0) for rank, node in enumerate(nodes)]


def gpus(*places):
    """Allocations of a GPU each, at (node, GPU)."""
    return [Allocation(node, (gpu,), 4.0, 1.0) for node, gpu in places]


def summaries(routes):
    """Return `(transport, sender, readers, part)` of each route."""
    return [(route.transport, route.sender, route.readers, route.part) for route in routes]


ACTORS = [("actor", rank) for rank in range(4)]
ROLLOUTS = [("rollout", rank) for rank in range(6)]


def test_on_one_node_the_first_actor_sends_to_all():
    routes = plan_weight_routes(cores(0, 0), cores(0, 0, 0))
    assert summaries(routes) == [("object_store", ACTORS[0], (0, 1, 2), 0)]
    assert describe_transports(routes) == "the object store"


def test_each_node_is_served_by_an_actor_of_its_own():
    """hybrid, on two nodes: env 0-3 / rollout 4-7 / actor 0-7 and the like"""
    routes = plan_weight_routes(cores(0, 0, 1, 1), cores(1, 0, 1))
    assert summaries(routes) == [
        ("object_store", ACTORS[0], (1,), 0),
        ("object_store", ACTORS[2], (0, 2), 0),
    ]


def test_a_node_without_an_actor_gets_the_weights_once():
    """Readers 1, 2 on node 1 and 3 on node 2: each node's first one is sent to; it hands on."""
    routes = plan_weight_routes(cores(0), cores(0, 1, 1, 2))
    assert summaries(routes) == [
        ("object_store", ACTORS[0], (0,), 0),
        ("broadcast", ACTORS[0], (1, 3), 0),
        ("object_store", ROLLOUTS[1], (2,), 0),
    ]
    assert [route.is_relay for route in routes] == [False, False, True]
    assert describe_transports(routes) == "the object store and the network"


def test_parts_of_one_node_meet_at_every_reader_there():
    routes = plan_weight_routes(cores(0, 0), cores(0, 0), shares=2)
    assert summaries(routes) == [
        ("object_store", ACTORS[0], (0, 1), 0),
        ("object_store", ACTORS[1], (0, 1), 1),
    ]


def test_copies_of_divided_parameters_serve_their_own_node():
    """Two actors divide a copy, a copy on each node: ranks 0 and 2 hold part 0, 1 and 3 part 1."""
    routes = plan_weight_routes(cores(0, 0, 1, 1), cores(0, 1), shares=2)
    assert summaries(routes) == [
        ("object_store", ACTORS[0], (0,), 0),
        ("object_store", ACTORS[1], (0,), 1),
        ("object_store", ACTORS[2], (1,), 0),
        ("object_store", ACTORS[3], (1,), 1),
    ]


def test_parts_that_lie_on_two_nodes_cross_once():
    """Rollouts 0, 1 beside part 0 and 2, 3 beside part 1; the first on each node gets both parts,
    then hands on all."""
    routes = plan_weight_routes(cores(0, 1), cores(0, 0, 1, 1), shares=2)
    assert summaries(routes) == [
        ("object_store", ACTORS[0], (0,), 0),
        ("object_store", ACTORS[1], (2,), 1),
        ("broadcast", ACTORS[0], (2,), 0),
        ("broadcast", ACTORS[1], (0,), 1),
        ("object_store", ROLLOUTS[0], (1,), 0),
        ("object_store", ROLLOUTS[2], (3,), 0),
    ]


def test_between_gpus_only_where_all_ends_have_one():
    both = plan_weight_routes(gpus((0, 0)), gpus((1, 0)))
    mixed = plan_weight_routes(gpus((0, 0)), [*gpus((1, 0)), *cores(2)])
    assert [route.on_gpus for route in both] == [True]
    assert [(route.readers, route.on_gpus) for route in mixed] == [((1,), False), ((0,), True)]


def test_not_between_two_ends_on_one_gpu():
    (route,) = plan_weight_routes(gpus((0, 0)), gpus((0, 0)), sync="broadcast")
    assert (route.transport, route.on_gpus) == ("broadcast", False)


@pytest.mark.parametrize("transport", ["object_store", "broadcast"])
def test_one_transport_for_all_readers_where_the_run_sets_it(transport):
    routes = plan_weight_routes(cores(0, 1), cores(0, 1, 1), shares=2, sync=transport)
    assert summaries(routes) == [
        (transport, ACTORS[0], (0, 1, 2), 0),
        (transport, ACTORS[1], (0, 1, 2), 1),
    ]


@pytest.mark.parametrize("shares", [1, 2, 4])
@pytest.mark.parametrize("actors", [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("rollouts", [(0,), (1, 1), (0, 1, 2, 2), (3, 2, 1, 0, 0, 4)])
@pytest.mark.parametrize("sync", ["auto", "object_store", "broadcast"])
def test_every_reader_gets_every_part_once(shares, actors, rollouts, sync):
    routes = plan_weight_routes(cores(*actors), cores(*rollouts), shares=shares, sync=sync)
    assert [route.number for route in routes] == list(range(len(routes)))
    keys = [key for route in routes for key in route.keys]
    assert len(set(keys)) == len(keys)
    for reader in range(len(rollouts)):
        ending = [route for route in routes if reader in route.readers]
        if len(ending) == 1 and ending[0].is_relay:
            (route,) = ending
            first = route.sender[1]  # a reader of all parts, on the same node
            assert rollouts[first] == rollouts[reader]
            ending = [route for route in routes if first in route.readers]
        assert not any(route.is_relay for route in ending)
        assert sorted(route.part for route in ending) == list(range(shares))
        assert all(route.sender[1] % shares == route.part for route in ending)
    # over the network a part goes to a node once
    if sync == "auto":
        for part in range(shares):
            broadcasts = [r for r in routes if (r.transport, r.part) == ("broadcast", part)]
            nodes = [rollouts[reader] for route in broadcasts for reader in route.readers]
            assert len(set(nodes)) == len(nodes)


def test_keys_of_queues_name_the_route_and_the_reader():
    route = WeightRoute("object_store", ("actor", 0), (2, 5), number=3)
    assert route.keys == ("weights/3/2", "weights/3/5")
