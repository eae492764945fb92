"""What a group does about env workers that are lost, without a cluster: Ray's part is played here.
Over real nodes: tests/e2e/test_node_faults.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from rlcore_ray import group as ray_group
from rlcore_ray.channel import WorkerLost
from rlcore_ray.group import RayGroup
from rlcore_ray.relocate import Irreplaceable

from rlcore.config.schema import ClusterConfig
from rlcore.placement import Node
from rlcore.placement.plan import Allocation
from rlcore.rollout.messages import InteractReport, Route
from rlcore.workers.worker_specs import ConversationPart, Member, WorkerSpecs

DIED = "env worker 0 on node 1 (b) died"
NODES = (Node(cpus=3, name="a", id="1"), Node(cpus=2, name="b", id="2"))
TALK = [ConversationPart("env", 0, "converse", {}), ConversationPart("rollout", 0, "converse", {})]


@dataclass(frozen=True)
class Job:
    """As much of a rollout's job as a group looks at."""

    routes: tuple[Route, ...]
    weights: int | None = None


class Remote:
    """A worker: any method can be asked for."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self._calls, self.alive = name, calls, True

    def __getattr__(self, method: str) -> Remote:
        return self if method == "remote" else type(self)(f"{self.name}.{method}", self._calls)

    def __call__(self, *arguments: object) -> str:
        self._calls.append(f"{self.name}({arguments[0] if arguments else ''})")
        return self._calls[-1]


class Played:
    """Stands in for :class:`rlcore_ray.failures.PendingCalls`: raises its `failures` in turn."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.broken_off: list[str] = []

    def results(self, refs, timeout, doing, on_count=None):
        if doing == "converse" and self.failures:
            raise self.failures.pop(0)
        return [InteractReport() if "env" in name else None for name in refs.values()]

    def break_off(self, reason):
        self.broken_off.append(reason)

    def clear(self):
        return None


class PlayedQueues:
    """Stands in for :class:`rlcore_ray.queues.Queues`: notes where new ones are made."""

    def __init__(self) -> None:
        self.hub, self.of, self.renewed = None, {0: None}, []

    def renew(self, rank, node):
        self.renewed.append((rank, node))


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch):
    """An env worker on node 1, which is alone there, and a policy on node 0."""
    allocations = {
        role: Allocation(n, (0,), 1.0, 0.0) for role, n in (("env", 1), ("rollout+actor", 0))
    }
    members = {role: (Member(None, allocation),) for role, allocation in allocations.items()}  # type: ignore[arg-type]
    made = RayGroup(WorkerSpecs(ClusterConfig(simulator_restarts=2), members, nodes=NODES))
    calls: list[str] = []
    made._nodes = ["1", "2"]
    made._waiting, made._queues = Played(), PlayedQueues()
    made._workers = {role: [Remote(role, calls)] for role in members}
    monkeypatch.setattr(ray_group.ray, "wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr(made, "_alive", lambda worker: worker.alive)
    monkeypatch.setattr(made, "_spawn", lambda role, rank, member: Remote(f"new {role}", calls))
    there = ["1", "2"]
    monkeypatch.setattr(ray_group, "alive_nodes", lambda: [{"NodeID": name} for name in there])
    yield made, calls, there
    made._workers = {}


def lose(group: RayGroup, role: str) -> None:
    group._workers[role][0].alive = False
    group._waiting.failures.append(WorkerLost(f"{role} worker 0 died"))


def test_a_worker_that_died_is_started_where_it_was(group):
    made, calls, _ = group
    lose(made, "env")
    (report, _) = made._talk(TALK)
    (incident,) = report.incidents
    assert incident.startswith(DIED) and "converse" in incident
    assert made._worker_specs.members["env"][0].allocation.node == 1
    assert made._waiting.broken_off == ["env worker 0 died"]
    assert made._queues.renewed == [(0, "2")] and "new env.call(start)" in calls
    assert calls.count("new env.talk(converse)") == 1
    assert made._talk(TALK)[0].incidents == []  # reported once


def test_a_death_is_reported_alike_whoever_notices_it(group):
    """The policy, whose observations are lost with their sender."""
    made, _, _ = group
    lose(made, "env")
    made._waiting.failures = [WorkerLost("observations were lost with the process that sent them")]
    (incident,) = made._talk(TALK)[0].incidents
    assert incident.startswith(DIED) and "converse" in incident


def test_a_worker_is_given_the_queues_it_uses(group):
    """Of 256 env workers each has one, and the policies share them out."""
    made, _, _ = group
    given: dict[str, object] = {}

    class Talks(Remote):
        def __call__(self, *arguments: object) -> str:
            given[self.name] = arguments[2]
            return self.name

    made._queues.of = {0: "a", 1: "b", 2: "c"}
    made._workers = {
        role: [Talks(f"{role}{rank}", []) for rank in range(3)] for role in made._workers
    }
    allocations = {role: (members * 3) for role, members in made._worker_specs.members.items()}
    made._worker_specs = replace(made._worker_specs, members=allocations)
    made._waiting.results = lambda refs, *_: list(refs)
    routes = [(Route(0, 0), Route(1, 0)), (Route(2, 0, 1), Route(2, 1)), ()]
    made.converse([None] * 3, [Job(of_rank) for of_rank in routes])
    assert {name.partition(".")[0]: queues for name, queues in given.items()} == {
        "env0": {0: "a"},
        "env1": {1: "b"},
        "env2": {2: "c"},
        "rollout+actor0": {0: "a", 1: "b"},
        "rollout+actor1": {2: "c"},
        "rollout+actor2": {},
    }


def test_a_worker_whose_node_is_gone_is_started_elsewhere(group):
    made, _, there = group
    there.remove("2")
    lose(made, "env")
    (report, _) = made._talk(TALK)
    died, moved = report.incidents
    assert died.startswith(DIED)
    assert moved.startswith("node 1 (b)") and "env worker 0" in moved and "node 0 (a)" in moved
    allocation = made._worker_specs.members["env"][0].allocation
    assert (allocation.node, allocation.local_ranks) == (0, (1,))
    assert made._queues.renewed == [(0, "1")]


def test_a_worker_that_dies_again_and_again_ends_the_run(refused, group):
    made, calls, _ = group
    lose(made, "env")
    made._waiting.failures *= 3
    made._spawn = lambda role, rank, member: replace_dead(calls)
    with refused(WorkerLost, "env worker 0"):
        made._talk(TALK)
    assert calls.count("new env.call(start)") == 2  # cluster.simulator_restarts


def replace_dead(calls: list[str]) -> Remote:
    worker = Remote("new env", calls)
    worker.alive = False
    return worker


def test_a_policy_is_not_replaced(refused, group):
    made, calls, there = group
    lose(made, "rollout+actor")
    with refused(Irreplaceable, "rollout+actor worker 0"):
        made._talk(TALK)
    assert not [line for line in calls if line.startswith("new")]
    there.remove("1")
    lose(made, "rollout+actor")
    with refused(Irreplaceable, "node 0 (a)", "rollout+actor"):
        made._talk(TALK)


def test_calls_of_env_workers_survive_too(group, monkeypatch: pytest.MonkeyPatch):
    """Experts that are asked for episodes."""
    made, _, _ = group
    failures = [WorkerLost("env worker 0 died")]
    answer = made._waiting.results

    def results(refs, timeout, doing, on_count=None):
        if doing == "demonstrate" and failures:
            made._workers["env"][0].alive = False
            raise failures.pop()
        return answer(refs, timeout, doing, on_count)

    monkeypatch.setattr(made._waiting, "results", results)
    assert len(made._call("env", "demonstrate", [{}])) == 1
    (incident,) = made._incidents
    assert incident.startswith(DIED) and "demonstrate" in incident


class Unstoppable(RayGroup):
    """Group whose workers can't be stopped; it notes in `closed` that its session was closed."""

    def __init__(self) -> None:
        super().__init__(WorkerSpecs(ClusterConfig(), {"env": ()}))
        self._workers = {"env": [None]}
        self.closed: list[str] = []
        self._session.callback(self.closed.append, "session")

    def _stop(self, workers, graceful):
        raise ValueError("the first error")


def test_the_session_is_closed_even_if_a_worker_cannot_be_stopped(monkeypatch):
    made = Unstoppable()
    monkeypatch.setattr(ray_group.ray, "is_initialized", lambda: True)
    with pytest.raises(ValueError, match="the first error"):
        made.stop()
    assert made.closed == ["session"]


def test_the_log_of_a_worker_is_found_by_its_name(tmp_path):
    allocations = {"env": Allocation(1, (0,), 1.0, 0.0), "actor": Allocation(0, (0,), 1.0, 0.0)}
    members = {role: (Member(None, allocation),) for role, allocation in allocations.items()}  # type: ignore[arg-type]
    worker_specs = WorkerSpecs(ClusterConfig(), members, nodes=NODES, output=tmp_path)
    assert worker_specs.log_of("env worker 0 on node 1 (b)") == tmp_path / "env_0.log"
    assert worker_specs.log_of("actor worker 0 on node 0 (a)") == tmp_path / "actor_0.log"
    assert worker_specs.log_of("actor worker 1") is None
    assert replace(worker_specs, output=None).log_of("env worker 0 on node 1 (b)") is None
