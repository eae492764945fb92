"""What is known of a run before it starts."""

from __future__ import annotations

from dataclasses import replace

from rlcore.checks.facts import gather_facts
from rlcore.config.compose import compose

TOY = ["env=toy", "model=toy", "algorithm=plain"]


def test_a_policy_gets_the_sentences_of_all_envs_it_acts_in(registry):
    """The train env has one task, evaluation another; a third env has a sentence of its own."""
    sides = ["env.train.tasks=[reach-left]", "env.eval.tasks=[reach-right]"]
    config = compose([*TOY, *sides], registry=registry)
    found = gather_facts(config, registry)
    train, test = (found.envs[side].instructions for side in ("train", "eval"))
    assert train != test and found.policy_env.all_instructions == (*train, *test)
    third = replace(found.envs["eval"], episode_instructions=("put it down", *test))
    policy_env = gather_facts(config, registry, further={"third": third}).policy_env
    expected = (*train, *test, "put it down")
    assert policy_env == replace(found.envs["train"], episode_instructions=expected)
