"""Where a run goes on after nodes have left; over real ones: tests/e2e/test_node_faults.py."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace

import pytest

from rlcore.config.compose import compose
from rlcore.config.schema import ActorConfig
from rlcore.contracts.errors import MicroBatchError, PlacementError, RunWarning, WorkerError
from rlcore.placement import Inventory, Node
from rlcore.training import after_node_loss, train
from rlcore.training.assembly import assemble
from rlcore.workers.backend import load_backend

NODE = Node(cpus=2, name="a", id="1")
WORDS = ["env=toy", "model=toy", "algorithm=ppo", "cluster.timeouts.nodes=0.1"]


@pytest.fixture
def over_two(monkeypatch: pytest.MonkeyPatch):
    """The parts of a run over two nodes, and how many of them are there from then on."""
    there = [2]

    def found(cluster, **_):
        if cluster.num_nodes > there[0]:
            raise PlacementError(f"cluster.num_nodes is {cluster.num_nodes}, but {there[0]} joined")
        return Inventory((NODE,) * there[0], head=address)

    monkeypatch.setattr("rlcore.training.assembly.find_inventory", found)
    monkeypatch.setattr(after_node_loss, "find_inventory", found)
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        monkeypatch.setattr("rlcore_ray.cluster.speaks_grpc", lambda _: True)
        address = f"127.0.0.1:{head.getsockname()[1]}"

        def made(placement: str, given: str = address):
            more = [f"cluster.address={given}", f"cluster.component_placement={placement}"]
            return assemble(compose([*WORDS, "cluster.num_nodes=2", *more]))

        yield made, there, head


def test_as_many_nodes_as_before_are_taken_as_before(over_two):
    made, _, _ = over_two
    before = made("{env: 0, rollout: 0, actor: 3}")
    after = after_node_loss.on_remaining_nodes(before)
    assert (
        after.config == before.config and after.worker_specs.members == before.worker_specs.members
    )


def test_fewer_nodes_do_where_the_map_fits(over_two):
    """The map has ranks 0 and 1, which the first node has alone."""
    made, there, _ = over_two
    before = made("{env: 0, rollout: 0, actor: 1}")
    there[0] = 1
    with pytest.warns(RunWarning, match="is 2, but 1 joined; the run goes on over 1"):
        after = after_node_loss.on_remaining_nodes(before)
    assert after.config.cluster == replace(before.config.cluster, num_nodes=1)


def test_where_it_does_not_fit_both_reasons_are_given(over_two):
    made, there, _ = over_two
    before = made("{env: 0, rollout: 0, actor: 3}")
    there[0] = 1
    with pytest.raises(PlacementError) as error:
        after_node_loss.on_remaining_nodes(before)
    assert error.value.message == (
        "cluster.num_nodes is 2, but 1 joined; the run can't continue on 1: "
        "cluster.component_placement.actor: part '3': rank 3 is out of range; allowed: 0-1"
    )


def test_after_each_failure_it_takes_as_many_nodes_as_were_asked_for(
    over_two, monkeypatch: pytest.MonkeyPatch
):
    """A node leaves, the run goes on without it; it comes back, and is taken again."""
    made, there, _ = over_two
    left, over = [1, 2], []

    @contextlib.contextmanager
    def opened(assembly, **_):
        over.append(assembly.config.cluster.num_nodes)
        yield None

    def played(*_):
        if left:
            there[0] = left.pop(0)
            raise WorkerError("a node left")
        return "done"

    monkeypatch.setattr(train, "open_session", opened)
    monkeypatch.setattr(train, "_run_stages", played)
    monkeypatch.setattr(train.resume, "after_failure", lambda *_: None)
    with pytest.warns(RunWarning, match="the run goes on over 1"):
        assert train.run(made("{env: 0, rollout: 0, actor: 1}")) == "done"
    assert over == [2, 1, 2]


def test_where_memory_runs_out_after_a_node_left_it_goes_on_over_the_others(
    over_two, monkeypatch: pytest.MonkeyPatch
):
    made, there, _ = over_two
    failures, over = [WorkerError("a node left"), MicroBatchError("too large")], []

    @contextlib.contextmanager
    def opened(assembly, **_):
        config = assembly.config
        over.append((config.cluster.num_nodes, config.actor.micro_batch_size))
        yield None

    def played(*_):
        if failures:
            there[0] = 1
            raise failures.pop(0)
        return "done"

    monkeypatch.setattr(train, "open_session", opened)
    monkeypatch.setattr(train, "_run_stages", played)
    monkeypatch.setattr(train.resume, "after_failure", lambda *_: None)
    asked_for = made("{env: 0, rollout: 0, actor: 1}")
    size = asked_for.config.actor.micro_batch_size
    with pytest.warns(RunWarning, match="the run goes on"):
        assert train.run(asked_for) == "done"
    assert over == [(2, size), (1, size), (1, size // 2)]


def test_a_head_that_was_found_by_itself_is_waited_for_where_it_was(
    over_two, capsys: pytest.CaptureFixture[str]
):
    """`auto` finds none while it is down."""
    made, _, head = over_two
    address = f"127.0.0.1:{head.getsockname()[1]}"
    before = made("{env: 0, rollout: 0, actor: 3}", "auto")
    assert after_node_loss.on_remaining_nodes(before).config == before.config
    head.close()
    with pytest.raises(WorkerError, match=f"no Ray cluster answers at cluster.address={address}"):
        after_node_loss.on_remaining_nodes(before)
    assert "waiting up to 0.1 s (cluster.timeouts.nodes)" in capsys.readouterr().err


def test_a_head_is_waited_for(over_two, capsys: pytest.CaptureFixture[str]):
    made, _, head = over_two
    before = made("{env: 0, rollout: 0, actor: 3}")
    head.close()
    with pytest.raises(WorkerError, match="no Ray cluster answers at"):
        after_node_loss.on_remaining_nodes(before)
    assert "waiting up to 0.1 s (cluster.timeouts.nodes)" in capsys.readouterr().err


def test_nodes_are_asked_within_a_session(over_two, monkeypatch: pytest.MonkeyPatch, tmp_path):
    """That of the command was shut down with the head; Ray would take any cluster it finds."""
    made, _, _ = over_two
    inside: list[int] = []
    asked: list[int] = []

    @contextlib.contextmanager
    def opened(cluster):
        inside.append(cluster.num_nodes)
        yield
        inside.clear()

    monkeypatch.setattr("rlcore_ray.cluster.cluster_session", opened)
    monkeypatch.setattr("rlcore_ray.backend.require_node_files", lambda *_: asked.extend(inside))
    run = made("{env: 0, rollout: 0, actor: 3}")
    backend = load_backend(run.config.cluster)
    backend.check_nodes(run.config, run.worker_specs, tmp_path)
    assert asked == [2]


def test_a_cluster_of_its_own_is_started_anew():
    alone = assemble(compose([*WORDS[:3], "cluster.backend=local"]))
    assert after_node_loss.on_remaining_nodes(alone) is alone


@pytest.mark.parametrize(
    ("wanted", "batch", "ranks", "most"),
    # 1024 over 16 ranks are 64 each; 960 over 8 are 120, of which 100 is no divisor but 60 is
    [(128, 1024, 16, 64), (128, 1024, 1, 128), (100, 960, 8, 60), (8, 6, 4, None)],
)
def test_the_micro_batch_divides_what_a_rank_gets(wanted, batch, ranks, most):
    assert ActorConfig(global_batch_size=batch).largest_micro_batch(wanted, ranks) == most
