"""Invalid protocols are refused; an interrupted evaluation continues only as planned."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from internals import compose
from rlcore_testing import toy_settings
from rlcore_testing.toy_settings import HASTE

from rlcore.config.overrides import overridden_keys
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import CheckpointError, ConfigError, PluginError
from rlcore.contracts.specs import Published
from rlcore.plugins.registry import load_plugins
from rlcore.runs import manifest
from rlcore.training.assembly import assemble
from rlcore.training.protocol import play as protocol
from rlcore.training.protocol.rows import protocol_spec, row_configs, rows_of

WORDS = ["env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.only_eval=true"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": {}, "averages": {}}, []),
        ({"groups": {**HASTE.groups, "Looks": {}}}, ["'Looks'"]),
        ({"groups": {**HASTE.groups, "More": {"left": {}}}}, ["'left'"]),
        ({"groups": {**HASTE.groups, "More": {"eval": {}}}}, ["'eval'", "train, eval"]),
        ({"averages": {"OOD": ()}}, ["average 'OOD'"]),
        ({"totals": {"all": ()}}, ["total 'all'"]),
        ({"averages": {"OOD": ("Hury",)}}, ["'Hury'", "'IND'"]),
        ({"may_differ": ("tasks", "split")}, ["'split'"]),
        (
            {"published": (Published("ACT", "PPO", {"Hury": 61.5}, "a page"),)},
            ["ACT", "'Hury'"],
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else " ".join(value),
)
def test_an_invalid_protocol_is_refused(refused, monkeypatch, changes, words):
    monkeypatch.setattr(toy_settings, "HASTE", replace(HASTE, **changes))
    with refused(PluginError, "'toy_haste'", "rlcore-testing", *words):
        protocol_spec(load_plugins(), "toy_haste")


def test_a_row_with_an_invalid_value_is_refused(refused):
    config = compose([*WORDS, "env.eval.trials_per_task=1"])
    odd = replace(HASTE, groups={"IND": {"elsewhere": {"split": "tset"}}}, averages={})
    with refused(ConfigError, "env.eval.split", "train, heldout, validation"):
        row_configs(config, "toy_haste", odd)


def rows(*words, **changes):
    """Return the configurations of the toy's protocol with these overrides."""
    given = overridden_keys([*WORDS, *words])
    return row_configs(compose([*WORDS, *words]), "toy_haste", replace(HASTE, **changes), given)


def test_a_key_that_rows_set_is_refused_beside_them(refused):
    with refused(ConfigError, "env.eval.max_episode_steps", 4, "'4 steps'", 8) as error:
        rows("env.eval={max_episode_steps: 8}")
    assert error.value.hint is None
    other_case = pytest.warns(ConfigWarning, match=r"env\.eval\.Tasks")
    with other_case, refused(ConfigError, "env.eval.tasks", "env.eval.max_episode_steps"):
        rows("env.eval.Tasks=[reach-up]", may_differ=("max_episode_steps",))


def test_a_key_that_no_row_sets_keeps_its_value():
    played = rows("env.eval.trials_per_task=3", "env.train.max_episode_steps=8")
    assert {row.env.eval.trials_per_task for row in played.values()} == {3}
    assert played["4 steps"].env.eval.max_episode_steps == 4


def test_a_key_that_may_differ_holds_for_all_rows_and_its_figures_are_marked(monkeypatch):
    monkeypatch.setattr(toy_settings, "HASTE", replace(HASTE, may_differ=("max_episode_steps",)))
    words = [*WORDS, "env.eval.trials_per_task=1", "env.eval.max_episode_steps=8"]
    config = compose(words)
    given = overridden_keys(words)
    with pytest.warns(ConfigWarning, match="env.eval.max_episode_steps=8.* protocol=toy_haste"):
        configs = rows_of(config, protocol="toy_haste", given=given)
    assert [row.env.eval.max_episode_steps for row in configs.values()] == [8, 8, 8, 8, 8]
    # the row that has 8 steps anyway is the protocol's; in others no key is set
    registry = load_plugins()
    assembly = assemble(config, registry, configs)
    marks = protocol.other_than(toy_settings.HASTE, "toy_haste", configs)
    marked = protocol._with_caveats(assembly, marks).env_specs
    caveats = {row: spec.caveat for row, spec in marked.items() if spec.caveat}
    assert list(caveats) == ["4 steps"]
    assert "env.eval.max_episode_steps=8" in caveats["4 steps"]
    # the value is not on the command line, so the rows set theirs
    own = rows_of(config, protocol="toy_haste").values()
    assert [row.env.eval.max_episode_steps for row in own] == [8, 8, 4, 8, 8]


def test_the_title_gives_each_caveat_once():
    caveats = {"left": "rehearsal; evaluated on seen starts", "right": "rehearsal"}
    assert protocol._title("name", caveats) == "name; rehearsal; evaluated on seen starts (left)"
    assert protocol._title("name", {"left": "", "right": "rehearsal"}) == "name; rehearsal (right)"


@pytest.fixture
def plan(tmp_path):
    """`plan()` plans an evaluation of a policy of adapters on a base, both in folders."""
    for name in ("policy", "base"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"")
    adapts = {"base_model_name_or_path": str(tmp_path / "base")}
    (tmp_path / "policy" / "adapter_config.json").write_text(json.dumps(adapts))
    registry = load_plugins()
    config = compose([*WORDS, "env.eval.trials_per_task=1"])
    configs = row_configs(config, "toy_haste", protocol_spec(registry, "toy_haste"))
    assembly = assemble(config, registry, configs)
    model = replace(config.actor.model, model_path=str(tmp_path / "policy"))
    loaded = replace(config, actor=replace(config.actor, model=model))
    return lambda: protocol._plan(replace(assembly, config=loaded))


def test_a_plan_is_of_one_code_and_one_base(plan, tmp_path, monkeypatch):
    """An interrupted evaluation continues with the same versions, commit and base model."""
    before = plan()
    assert plan() == before
    base = tmp_path / "base" / "model.safetensors"
    assert before["checkpoint"][str(tmp_path / "base")] == {base.name: base.stat().st_mtime_ns}
    monkeypatch.setattr(manifest, "versions", lambda *_: {**before["versions"], "torch": "0"})
    assert plan() != before
    monkeypatch.undo()
    monkeypatch.setattr(manifest, "git_state", lambda _: {"commit": "another", "dirty": False})
    assert plan() != before
    monkeypatch.undo()
    os.utime(base, ns=(1, 1))
    assert plan() != before


@pytest.mark.parametrize("content", ["{", "[]", '{"base_model_name_or_path": null}'])
def test_adapters_of_no_model_are_refused(refused, plan, tmp_path, content):
    (tmp_path / "policy" / "adapter_config.json").write_text(content)
    with refused(CheckpointError, "adapter_config.json", text=False):
        plan()
