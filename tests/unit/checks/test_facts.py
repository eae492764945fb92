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


def test_a_forward_holds_every_sample_that_the_algorithm_asks_for(registry):
    """Three decisions of each row take three times the memory of acting."""
    found = gather_facts(compose(TOY, registry=registry), registry)
    policy = replace(found.policy, cache_size=10)
    acting = []
    for samples in (1, 3):
        needs = replace(found.needs, samples=samples)
        facts = replace(found, policy=policy, needs=needs)
        acting += [memory.acting for memory in facts.memory.values() if memory.acts]
    assert acting[0] > 0 and acting[1] == 3 * acting[0]
