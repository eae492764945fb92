"""Nodes that lack files, packages or the run's folder; over real nodes: e2e/test_nodes_apart.py."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest
from internals import assemble, compose
from rlcore_ray import node_files, node_probe

from rlcore.contracts.errors import AssetError
from rlcore.placement import Inventory, Node
from rlcore.plugins.registry import load_plugins

TOY = {kind: load_plugins().get(kind, "toy") for kind in ("env", "model")}
BOTH = {"env": [TOY["env"]], "rollout": [TOY["model"]], "actor": [TOY["model"]]}
NOTHING = pickle.dumps(None)  # a configuration that no doctor is asked for
NODES = (Node(cpus=2, name="a", id="1"), Node(cpus=2, name="b", id="2"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Env workers on both nodes, policies on the second."""
    (tmp_path / "weights").mkdir()
    monkeypatch.setattr(Inventory, "local", classmethod(lambda cls: Inventory(NODES)))
    config = compose(
        [
            "env=toy",
            "model=toy",
            "algorithm=ppo",
            "cluster.num_nodes=2",
            "cluster.component_placement={env: 0-3, rollout: 2, actor: 3}",
            f"runner.logger.log_path={tmp_path / 'logs'}",
        ]
    )
    model = replace(config.actor.model, model_path=str(tmp_path / "weights"))
    assembly = assemble(config)
    config = replace(config, actor=replace(config.actor, model=model))
    return config, assembly.worker_specs


def answer(monkeypatch, change=lambda number, listing, missing: (listing, missing)):
    """Answer for the nodes what this machine would, after `change`; return the arguments."""
    calls = []

    def ask(ids, function, arguments, timeout):
        assert function is node_probe.inspect
        calls.extend(arguments)
        return [change(number, *function(*own)) for number, own in enumerate(arguments)]

    monkeypatch.setattr(node_files, "ask_nodes", ask)
    return calls


def without(path):
    """Change the answer of each node: it lacks all paths that begin with `path`."""

    def change(number, listing, missing):
        return {p: None if p.startswith(path) else f for p, f in listing.items()}, missing

    return change


def test_each_node_is_asked_for_what_its_workers_need(run, monkeypatch, tmp_path):
    calls = answer(monkeypatch)
    node_files.require_node_files(*run, BOTH, tmp_path / "logs")
    (env_levels, _, _, env_targets, _), (levels, _, _, targets, _) = calls
    weights = str(tmp_path / "weights")
    assert weights in levels and weights not in env_levels
    assert "rlcore_testing.toy_policy:make" in set(targets) - set(env_targets)
    assert not (tmp_path / "logs").exists() and not list(tmp_path.glob(".rlcore*"))


def test_weights_are_needed_where_a_policy_is(refused, run, monkeypatch, tmp_path):
    weights = str(tmp_path / "weights")
    answer(monkeypatch, without(weights))
    with refused(AssetError, "node 1", "actor.model.model_path=", weights):
        node_files.require_node_files(*run, {}, tmp_path)


@pytest.mark.parametrize(
    ("there", "lacking"),
    [  # a share that is not mounted; a copy that was cut off; one of another version
        ({}, "5 of 5 files"),
        ({"a.json": 2, "b.json": 2, "c": -1, "c/d": 1}, "1 of 5 files"),
        (
            {"a.json": 2, "b.json": 2, "c": -1, "c/d": 1, "model.safetensors": 2, "e": 1},
            "1 of 5 files",
        ),
    ],
)
def test_a_folder_must_hold_what_it_holds_here(refused, there, lacking, run, monkeypatch, tmp_path):
    weights = tmp_path / "weights"
    files = {"a.json": "{}", "b.json": "{}", "c/d": "x", "model.safetensors": "xxx"}
    for name, text in files.items():
        (weights / name).parent.mkdir(exist_ok=True)
        (weights / name).write_text(text)
    (weights / ".cache").mkdir()  # left by a download; no loader reads it
    answer(monkeypatch, lambda number, listing, _: (listing | {str(weights): there}, []))
    with refused(AssetError, "node 1 (b)", f"{lacking} of actor.model.model_path={weights}"):
        node_files.require_node_files(*run, {}, tmp_path)


def test_nodes_with_a_policy_share_the_folder_of_the_run(refused, run, monkeypatch, tmp_path):
    """Neither node sees the file that is made where the run will be; only node 1 has a policy."""
    answer(monkeypatch, without(str(tmp_path / ".rlcore-")))
    with refused(AssetError, "node 1", tmp_path / "logs"):
        node_files.require_node_files(*run, {}, tmp_path / "logs")


def test_a_finding_of_the_doctor_names_its_node(refused, run, monkeypatch, tmp_path):
    def change(number, listing, missing):
        return listing, missing if number else ["GL: no EGL device"]

    answer(monkeypatch, change)
    with refused(AssetError, "node 0", "GL: no EGL device"):
        node_files.require_node_files(*run, BOTH, tmp_path)


def test_files_are_listed_with_their_sizes(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "deep").write_text("xy")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")  # as if it were not there
    folder, file, none = map(str, (tmp_path, tmp_path / "a" / "b" / "deep", tmp_path / "no"))
    assert node_probe.list_files({folder: 3, file: 0, none: 3, "~": 0}) == {
        folder: {"a": -1, "a/b": -1, "a/b/deep": 2},
        file: {"": 2},
        none: None,
        "~": {},
    }
    assert node_probe.list_files({folder: 1}) == {folder: {"a": -1}}
    assert node_probe.describe()["versions"]["rlcore"] != "none"


def test_an_emptied_package_is_found_before_a_worker_loads_it(tmp_path, monkeypatch):
    """Its folder is there, so Python imports it as a namespace; or a file of it is empty."""
    (tmp_path / "emptied").mkdir()
    (tmp_path / "cleared").mkdir()
    (tmp_path / "cleared" / "policy.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    targets = ["emptied.env:make", "emptied:make", "cleared.policy:make"]
    missing = node_probe.missing_code(NOTHING, set(), targets, [])
    assert len(missing) == 3
    for target, text in zip(targets, missing, strict=True):
        assert text.startswith(f"code: {target} ")


def test_missing_files_of_an_installed_package_are_found(tmp_path, monkeypatch):
    info = tmp_path / "sim-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sim\nVersion: 1.0\n")
    names = ("sim/__init__.py", "sim/core.py", "sim/data.bin", "sim-1.0.dist-info/METADATA")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    (tmp_path / "sim").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    gone = "2 of 2 files of package sim: sim/__init__.py"
    assert node_probe.missing_code(NOTHING, set(), [], ["sim", "gone"]) == [gone, "package gone"]
    for name in names[:2]:
        (tmp_path / name).touch()
    assert node_probe.missing_code(NOTHING, set(), [], ["sim"]) == []


def test_simulators_of_rlcores_own_interpreter_are_looked_at_where_they_are_here():
    """`missing-here` is asked for and not installed: nothing of it is needed on another node."""
    spec = replace(TOY["env"].spec, requirements=("pytest>=1", "missing-here --no-deps"))
    env = replace(TOY["env"], spec=spec)

    def played(python: str | None) -> SimpleNamespace:
        side = SimpleNamespace(env_type="toy", interpreter=lambda: python)
        return SimpleNamespace(active_envs={"train": side, "eval": side})

    assert node_files._packages(played(None), [env, TOY["model"]]) == ["pytest"]
    assert node_files._packages(played("/venv/bin/python"), [env]) == []
