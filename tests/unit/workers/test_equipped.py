"""What is said of nodes that lack files; that they are asked is shown over real nodes
(tests/e2e/test_nodes.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.config.compose import compose
from rlcore.errors import AssetError
from rlcore.loop.assembly import assemble
from rlcore.placement import Inventory, Node
from rlcore.workers import equipped, probe

BOTH = {"env": {"testing"}, "actor": {"testing"}}
NODES = (Node(cpus=2, name="a", id="1"), Node(cpus=2, name="b", id="2"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Env workers on both nodes, policies on the second."""
    (tmp_path / "weights").mkdir()
    monkeypatch.setattr(Inventory, "local", classmethod(lambda cls: Inventory(NODES)))
    config = compose([
        "env=toy", "model=toy", "algorithm=ppo", "cluster.num_nodes=2",
        "cluster.component_placement={env: 0-3, rollout: 2, actor: 3}",
        f"runner.logger.log_path={tmp_path / 'logs'}",
    ])  # fmt: skip
    model = replace(config.actor.model, model_path=str(tmp_path / "weights"))
    assembly = assemble(config)
    config = replace(config, actor=replace(config.actor, model=model))
    return config, assembly.roster


def asked(monkeypatch, answer):
    """Answer for the nodes: `answer(id, question, arguments)`."""
    calls = []

    def ask(ids, question, arguments, timeout):
        calls.append((tuple(ids), question))
        return [answer(node, question, arguments) for node in ids]

    monkeypatch.setattr(equipped, "ask_nodes", ask)
    return calls


def test_each_node_is_asked_for_what_its_workers_need(run, monkeypatch, tmp_path):
    calls = asked(monkeypatch, lambda node, question, arguments: question(*arguments))
    apart = equipped.require_equipped(*run, BOTH, tmp_path / "logs")
    assert calls == [
        (("1", "2"), probe.absent),
        (("1", "2"), probe.ailing),  # env
        (("2",), probe.ailing),  # actor
    ]
    assert apart == {}  # all see the file that was made
    assert not (tmp_path / "logs").exists() and not list(tmp_path.glob(".rlcore*"))


def test_weights_are_needed_where_a_policy_is(run, monkeypatch, tmp_path):
    asked(monkeypatch, lambda node, question, arguments: [str(tmp_path / "weights")])
    with pytest.raises(AssetError) as error:
        equipped.require_equipped(*run, {}, tmp_path)
    assert error.value.message == (
        f"node 1 (b) lacks actor.model.model_path={tmp_path / 'weights'}"
    )


def test_nodes_of_policies_that_do_not_see_the_run_are_told_apart(run, monkeypatch, tmp_path):
    """Neither node sees the file that is made where the run will be; only the second holds a
    policy, and has the weights on its own disk."""
    asked(monkeypatch, lambda node, question, arguments: arguments[0][-1:])
    apart = equipped.require_equipped(*run, {}, tmp_path / "logs")
    assert apart == {1: {str(tmp_path / "weights")}}
    line = equipped.apart_line(replace(run[1], apart=apart))
    assert line.startswith("not seen from node 1 (b): what policies there write")


def test_what_a_doctor_misses_is_said_of_its_node(run, monkeypatch, tmp_path):
    def answer(node, question, arguments):
        return ["GL: no EGL device"] if question is probe.ailing and node == "1" else []

    asked(monkeypatch, answer)
    with pytest.raises(AssetError, match=r"^node 0 \(a\) lacks GL: no EGL device\n"):
        equipped.require_equipped(*run, {"env": {"testing"}}, tmp_path)


def test_a_probe_says_what_is_absent(tmp_path):
    assert probe.absent([str(tmp_path), str(tmp_path / "no"), "~"]) == [str(tmp_path / "no")]
    assert probe.look()["versions"]["rlcore"] != "none"
