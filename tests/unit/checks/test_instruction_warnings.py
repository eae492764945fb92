"""What is announced of sentences."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlcore.checks.run import announce, check
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.runs.env_facts import EnvFacts

GIVEN = {
    "reach-left": "Go to the left", "reach-right": "Go to the right",
    "reach-up": "Go up", "reach-down": "Go down",
}  # fmt: skip


def said(facts) -> list[str]:
    with pytest.warns(ConfigWarning) as noted:
        announce(facts)
    return [str(one.message) for one in noted if "sentence" in str(one.message)]


def test_other_words_than_in_training_are_announced(registry, toy_run, tmp_path):
    file = tmp_path / "s.json"
    file.write_text(json.dumps({**GIVEN, "reach-down": "Go up"}))
    config, plan = toy_run(f"env.eval.sentences={file}")
    facts = check(config, registry, plan)
    assert said(facts) == [
        "env.eval.sentences gives reach-up and reach-down the same sentence: 'Go up'",
        "the sentence of reach-left is 'reach the left side' in env.train and 'Go to the left' in "
        "env.eval, and 3 more tasks differ",
    ]
    config, plan = toy_run()
    facts = check(config, registry, plan)
    trained = replace(
        EnvFacts.from_spec(facts.envs["train"]), sentences={"reach-up": "Go up", "fly": "x"}
    )
    assert said(replace(facts, trained_in=trained)) == [
        "the sentence of reach-up is 'Go up' when actor.model.model_path was trained and 'reach "
        "the up side' in env.train"
    ]


def test_a_checkpoint_that_does_not_say_is_announced(registry, toy_run, tmp_path):
    config, plan = toy_run()
    facts = check(config, registry, plan)
    model = replace(config.actor.model, model_path=str(tmp_path))
    published = replace(config, actor=replace(config.actor, model=model))
    (note,) = said(replace(facts, config=published))
    assert note.startswith("actor.model.model_path does not record")


def test_demonstrations_under_other_words_are_announced(registry, toy_run, tmp_path):
    from rlcore.config.schema import CollectConfig
    from rlcore.demonstrations.layout import write_info
    from rlcore.demonstrations.records import DataInfo

    config, plan = toy_run("sft.enabled=true")
    facts = check(config, registry, plan)
    read = replace(config, collect=replace(config.collect, path=str(tmp_path)))
    facts = replace(facts, config=read)
    spec = replace(facts.envs["train"], instructions=("go", *facts.envs["train"].instructions[1:]))
    write_info(tmp_path, DataInfo.of_collection(spec, CollectConfig(), 0))
    assert said(facts) == [
        f"the sentence of reach-left is 'go' in the demonstrations of {tmp_path} and 'reach the "
        "left side' in env.train"
    ]


def test_a_collection_killed_at_its_first_file_is_refused(registry, toy_run, tmp_path):
    (tmp_path / "info.json").write_text('{"format": "rlc')
    config, plan = toy_run("sft.enabled=true", f"collect.path={tmp_path}")
    with pytest.raises(ConfigError, match=r"collect\.path must be a data set"):
        check(config, registry, plan)
