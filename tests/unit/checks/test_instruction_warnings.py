"""Warnings about the sentences of tasks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlcore.checks.run import announce, check
from rlcore.config.schema import CollectConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.demonstrations.layout import write_info
from rlcore.demonstrations.records import DataInfo
from rlcore.runs.env_facts import EnvFacts


def warnings_of(facts) -> list[str]:
    with pytest.warns(ConfigWarning) as recorded:
        announce(facts)
    texts = [str(warning.message) for warning in recorded]
    return [text for text in texts if "sentence" in text]


def test_other_sentences_than_in_training_are_announced(facts, tmp_path, snapshot):
    file = tmp_path / "s.json"
    sides = {"reach-left": "Go to the left", "reach-right": "Go to the right"}
    file.write_text(json.dumps({**sides, "reach-up": "Go up", "reach-down": "Go up"}))
    same, differing = warnings_of(facts(f"env.eval.sentences={file}"))
    assert "reach-up and reach-down" in same and "'Go up'" in same
    assert "'reach the left side'" in differing and "'Go to the left'" in differing
    assert "3 more" in differing
    assert [same, differing] == snapshot


def test_other_sentences_than_those_of_the_checkpoint_are_announced(facts, snapshot):
    found = facts()
    sentences = {"reach-up": "Go up", "fly": "x"}
    trained = replace(EnvFacts.from_spec(found.envs["train"]), sentences=sentences)
    (differing,) = warnings_of(replace(found, trained_in=trained))
    assert "reach-up is 'Go up'" in differing and "'reach the up side'" in differing
    assert differing == snapshot


def test_a_checkpoint_without_recorded_sentences_is_announced(facts, tmp_path):
    found = facts()
    actor = found.config.actor
    published = replace(actor, model=replace(actor.model, model_path=str(tmp_path)))
    (warning,) = warnings_of(replace(found, config=replace(found.config, actor=published)))
    assert warning.startswith("actor.model.model_path")


def test_demonstrations_under_other_sentences_are_announced(facts, tmp_path):
    found = facts("sft.enabled=true")
    train = found.envs["train"]
    spec = replace(train, instructions=("go", *train.instructions[1:]))
    write_info(tmp_path, DataInfo.of_collection(spec, CollectConfig(), 0))
    collect = replace(found.config.collect, path=str(tmp_path))
    (differing,) = warnings_of(replace(found, config=replace(found.config, collect=collect)))
    assert "reach-left is 'go'" in differing and str(tmp_path) in differing
    assert "'reach the left side'" in differing


def test_a_collection_killed_at_its_first_file_is_refused(registry, refused, toy_run, tmp_path):
    (tmp_path / "info.json").write_text('{"format": "rlc')
    config, plan = toy_run("sft.enabled=true", f"collect.path={tmp_path}")
    with refused(ConfigError, "collect.path", tmp_path, "safetensors", text=False):
        check(config, registry, plan)  # it lists the installed formats
