"""Where the queues between workers are."""

from __future__ import annotations

import pytest
from rlcore_ray import queues
from rlcore_ray.channel import RayChannel

from rlcore.rollout.messages import Route, env_rank_of


@pytest.fixture
def actors(monkeypatch):
    """What would be started and killed: actors are `"NODE #number"`."""
    started, killed = [], []

    def start(node):
        started.append(f"{node} #{len(started)}")
        return started[-1]

    monkeypatch.setattr(queues, "_start", start)
    monkeypatch.setattr(queues, "_kill", killed.append)
    return started, killed


def test_a_key_has_the_rank_of_its_env_worker():
    route = Route(12, 3, 1)
    assert env_rank_of(route.observations) == env_rank_of(route.actions) == 12
    assert [env_rank_of(key) for key in ("weights/0/1", "taken/2", "trajectory/0/1")] == [None] * 3


def test_one_env_worker_on_the_first_node_needs_no_process_more(actors):
    made = queues.Queues("a", ["a"])
    assert made.all == ["a #0"] and made.of == {0: "a #0"}


def test_every_other_env_worker_has_queues_on_its_node(actors):
    made = queues.Queues("a", ["a", "a", "b"])
    assert made.of == {0: "a #0", 1: "a #1", 2: "b #2"}
    assert made.all == ["a #0", "a #1", "b #2"]
    assert queues.Queues("a", ["b"]).of == {0: "b #4"}


def test_each_message_goes_through_the_queues_of_its_env_worker(actors):
    channel = RayChannel("a #0")
    channel.of = queues.Queues("a", ["a", "b"]).of
    keys = [Route(0, 0).actions, Route(1, 2).observations, "weights/0/1"]
    assert [channel._at(key) for key in keys] == ["a #0", "b #1", "a #0"]


def test_queues_of_a_lost_worker_move_with_it_but_the_hub_stays(actors):
    made = queues.Queues("a", ["a", "b"])
    made.renew(1, "a")
    made.renew(0, "b")
    assert made.of == {0: "a #0", 1: "a #2"} and actors[1] == ["b #1"]
    made.stop()
    assert actors[1] == ["b #1", "a #0", "a #2"]
