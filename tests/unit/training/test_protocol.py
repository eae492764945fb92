"""Protocols that could not be played to their end, and what an evaluation may go on with."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from rlcore_testing import toy_settings
from rlcore_testing.toy_settings import HASTE

from rlcore.config.compose import compose
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
    ("changes", "said"),
    [
        ({"groups": {}, "averages": {}}, "it has no groups"),
        ({"groups": {**HASTE.groups, "Looks": {}}}, "group 'Looks' has no rows"),
        ({"groups": {**HASTE.groups, "More": {"left": {}}}}, "two rows are called 'left'"),
        ({"groups": {**HASTE.groups, "More": {"eval": {}}}}, "a row can't be called 'eval'"),
        ({"groups": {**HASTE.groups, "More": {"train": {}}}}, "rlcore itself uses train, eval"),
        ({"averages": {"OOD": ()}}, "average 'OOD' is over no groups"),
        ({"totals": {"all": ()}}, "total 'all' is over no groups"),
        ({"averages": {"OOD": ("Hury",)}}, "is over 'Hury', not one of its groups: 'IND'"),
        ({"may_differ": ("tasks", "split")}, "'split' may differ, and no row sets it"),
        (
            {"published": (Published("ACT", "PPO", {"Hury": 61.5}, "a page"),)},
            "ACT has a published figure for 'Hury', no column of its table",
        ),
    ],
)
def test_a_malformed_protocol_is_refused_before_it_is_played(monkeypatch, changes, said):
    monkeypatch.setattr(toy_settings, "HASTE", replace(HASTE, **changes))
    with pytest.raises(PluginError, match="protocol 'toy_haste' of rlcore-testing: ") as refused:
        protocol_spec(load_plugins(), "toy_haste")
    assert said in refused.value.message


def test_a_row_with_a_text_that_its_key_does_not_take_is_refused():
    config = compose([*WORDS, "env.eval.trials_per_task=1"])
    odd = replace(HASTE, groups={"IND": {"elsewhere": {"split": "tset"}}}, averages={})
    with pytest.raises(
        ConfigError, match=r"env\.eval\.split must be one of train, heldout, validation, got"
    ):
        row_configs(config, "toy_haste", odd)


def rows(*words, **changes):
    """The rows of the toy's protocol beside these words."""
    given = overridden_keys([*WORDS, *words])
    return row_configs(compose([*WORDS, *words]), "toy_haste", replace(HASTE, **changes), given)


def test_a_key_that_rows_set_is_refused_beside_them():
    with pytest.raises(ConfigError) as refused:
        rows("env.eval={max_episode_steps: 8}")
    names = ("env.eval.max_episode_steps", "4: protocol=toy_haste", "'4 steps'", "got 8")
    message = refused.value.message
    assert not [name for name in names if name not in message], message
    assert refused.value.hint is None
    other_case = pytest.warns(ConfigWarning, match=r"env\.eval\.Tasks")
    with other_case, pytest.raises(ConfigError, match=r"env\.eval\.tasks") as refused:
        rows("env.eval.Tasks=[reach-up]", may_differ=("max_episode_steps",))
    assert "env.eval.max_episode_steps" in refused.value.hint


def test_a_key_that_no_row_sets_is_the_users():
    played = rows("env.eval.trials_per_task=3", "env.train.max_episode_steps=8")
    assert {row.env.eval.trials_per_task for row in played.values()} == {3}
    assert played["4 steps"].env.eval.max_episode_steps == 4


def test_a_key_that_may_differ_holds_for_all_rows_and_its_figures_are_marked(monkeypatch):
    monkeypatch.setattr(toy_settings, "HASTE", replace(HASTE, may_differ=("max_episode_steps",)))
    words = [*WORDS, "env.eval.trials_per_task=1", "env.eval.max_episode_steps=8"]
    config, given = compose(words), overridden_keys(words)
    said = "env.eval.max_episode_steps=8: figures are not those of protocol=toy_haste"
    with pytest.warns(ConfigWarning) as warned:
        configs = rows_of(config, protocol="toy_haste", given=given)
    assert [str(each.message) for each in warned] == [said]
    assert [row.env.eval.max_episode_steps for row in configs.values()] == [8, 8, 8, 8, 8]
    # the row that has 8 steps anyway is the protocol's; in others no key is set
    registry = load_plugins()
    assembly = assemble(config, registry, configs)
    marks = protocol.other_than(toy_settings.HASTE, "toy_haste", configs)
    marked = protocol._with_caveats(assembly, marks).env_specs
    assert {row: spec.caveat for row, spec in marked.items() if spec.caveat} == {"4 steps": said}
    # a value that the run came with is not asked for
    assert [
        row.env.eval.max_episode_steps for row in rows_of(config, protocol="toy_haste").values()
    ] == [8, 8, 4, 8, 8]


def test_the_title_says_once_what_figures_are_not():
    caveats = {"left": "rehearsal; evaluated on seen starts", "right": "rehearsal"}
    assert protocol._title("name", caveats) == "name; rehearsal; evaluated on seen starts (left)"
    assert protocol._title("name", {"left": "", "right": "rehearsal"}) == "name; rehearsal (right)"


@pytest.fixture
def plan(tmp_path):
    """`plan()`: that of a policy of adapters on a base, both in folders."""
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
    """What an evaluation goes on with was made by the same versions, commit and base model."""
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


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"base_model_name_or_path": null}'])
def test_adapters_of_no_model_are_refused(plan, tmp_path, content):
    (tmp_path / "policy" / "adapter_config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"adapter_config\.json"):
        plan()
