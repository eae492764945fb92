"""Lanes over memory, where some processes can't share it."""

from __future__ import annotations

import warnings

import pytest

from rlcore.errors import RunWarning
from rlcore.placement import Seat, plan_lanes
from rlcore.workers.policy_worker import PolicyWorker
from rlcore.workers.reach import reachable


def cores(*nodes):
    return [Seat(node, (rank,), 1.0, 0.0) for rank, node in enumerate(nodes)]


class Workers:
    """Rollout workers 0, 1, ... and an actor, in one process; some reach nobody's memory."""

    def __init__(self, apart=(), lends=True) -> None:
        self.apart, self.lends = apart, lends
        self.holding = PolicyWorker(None)
        self.asked = []

    def ask(self, questions):
        self.asked += [(who, what) for who, what, _ in questions]
        return [self.answer(*question) for question in questions]

    def answer(self, who, what, arguments):
        if what == "reaches" and who[1] in self.apart:
            self.holding.take_back()  # as if its files were another container's
        if what == "lend" and not self.lends:
            return None
        return getattr(self.holding, what)(**arguments)


def test_where_all_reach_each_other_nothing_changes():
    lanes = plan_lanes(cores(0), cores(0, 0, 1))
    workers = Workers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reachable(lanes, workers.ask) == lanes
    assert workers.asked == [
        (("actor", 0), "lend"),
        (("rollout", 0), "reaches"),
        (("rollout", 1), "reaches"),
        (("actor", 0), "take_back"),
    ]
    assert not workers.holding._lent


def test_who_does_not_reach_it_is_said_once_and_served_over_the_store():
    lanes = plan_lanes(cores(0), cores(0, 0))
    with pytest.warns(RunWarning) as told:
        found = reachable(lanes, Workers(apart={1}).ask)
    assert [(lane.way, lane.readers) for lane in found] == [
        ("shared_memory", (0,)),
        ("object_store", (1,)),
    ]
    (said,) = [str(one.message) for one in told]
    assert said.startswith("rollout worker 1 can't share memory with actor worker 0 (")
    assert "No such file" in said and said.endswith("): weights go over the object store")


def test_a_system_without_such_memory_goes_over_the_store():
    lanes = plan_lanes(cores(0), cores(0, 0))
    with pytest.warns(RunWarning, match="this system has none") as told:
        found = reachable(lanes, Workers(lends=False).ask)
    assert [(lane.way, lane.readers) for lane in found] == [("object_store", (0, 1))]
    assert len(told) == 2


def test_nobody_is_asked_where_no_memory_is_shared():
    lanes = plan_lanes(cores(0), cores(0), sync="object_store")
    assert reachable(lanes, None) == lanes
