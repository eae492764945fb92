"""Protocols that could not be played to their end, and what an evaluation may go on with."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from rlcore_testing import toy_settings
from rlcore_testing.toy_settings import HASTE

from rlcore.config.compose import compose
from rlcore.errors import CheckpointError, ConfigError, PluginError
from rlcore.loop import protocol
from rlcore.loop.assembly import assemble
from rlcore.loop.protocol import protocol_spec, row_configs
from rlcore.plugins import load_plugins
from rlcore.track import manifest

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
    with pytest.raises(ConfigError, match=r"env\.eval\.split must be one of train, heldout, got"):
        row_configs(config, "toy_haste", odd)


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
    monkeypatch.setattr(manifest, "versions", lambda _: {**before["versions"], "torch": "0"})
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
    with pytest.raises(CheckpointError, match="names no base_model_name_or_path"):
        plan()
