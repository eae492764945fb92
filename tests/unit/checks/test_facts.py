"""What is known of a run before it starts."""

from __future__ import annotations

from dataclasses import replace

from rlcore.checks.facts import gather_facts
from rlcore.config.compose import compose
from rlcore.contracts.specs import ReplayNeeds
from rlcore.plugins.registry import load_plugins

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


def test_demonstrations_are_counted_for_an_algorithm_that_learns_from_them():
    """The expert plays three episodes of each of four tasks, in at most 20 steps; every third step
    has a frame: 3 * 4 * 7."""
    words = ["env=toy", "model=gaussian", "algorithm=sac", "env.*.max_episode_steps=20"]
    words += ["collect.episodes_per_task=3", "collect.stride=3"]

    def frames(*more):
        return gather_facts(compose([*words, *more]), load_plugins()).demonstration_frames

    assert frames() == 3 * 4 * 7
    assert frames("collect.max_episode_steps=4") == 3 * 4 * 2
    assert frames("algorithm.demonstrations=0") == 0
    assert frames("collect.path=missing") == 0  # an error of its own


def test_a_decision_at_a_last_frame_is_stored_for_each_episode_of_a_column(registry):
    """Columns of 20 steps: of one episode, or of three that end after 8 steps at the most."""
    grown = []
    for words in ([], ["env.train.auto_reset=true"]):
        limit = 8 if words else 20
        sizes = ["env.train.total_num_envs=8", f"env.train.max_episode_steps={limit}"]
        steps = ["env.train.max_steps_per_rollout_epoch=20"] if words else []
        found = gather_facts(compose([*TOY, *words, *sizes, *steps], registry=registry), registry)
        kept = [
            replace(found, needs=replace(found.needs, replay=ReplayNeeds(0, final_decisions=kept)))
            for kept in (False, True)
        ]
        without, with_finals = (facts.memory["rollout+actor"].host for facts in kept)
        grown.append(with_finals - without)
    assert grown[0] >= 3 * 8 * found.policy.sample_bytes  # three copies while they are collected
    assert grown[1] == 3 * grown[0]
