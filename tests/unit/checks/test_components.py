"""Env, policy and algorithm that do not fit each other are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.contracts.specs import AlgorithmNeeds, ReplayNeeds, StateChannel
from rlcore.runs.env_facts import EnvFacts


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["actor.model.add_value_head=false"], ("actor.model.add_value_head", "plain", "false")),
        (["algorithm.reward_type=action_level"], ("reward_type=action_level", "chunk_level")),
        (
            ["algorithm.reward_type=action_level", "algorithm.logprob_type=action_level"],
            ("value_type=action_level",),
        ),
        (
            ["actor.fsdp_config.gradient_checkpointing=true"],
            ("actor.fsdp_config.gradient_checkpointing", "toy"),
        ),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(facts, reported, overrides, words):
    reported(facts(*overrides), *words)


def policy(**changes):
    return lambda facts: replace(facts, policy=replace(facts.policy, **changes))


def evaluation_env(**changes):
    def change(facts):
        return replace(facts, envs={**facts.envs, "eval": replace(facts.envs["eval"], **changes)})

    return change


def algorithm(**needs):
    return lambda facts: replace(facts, needs=AlgorithmNeeds(**needs))


def imitation_without_a_loss(facts):
    return policy(sft_objective=None)(algorithm(imitation=True)(facts))


def sharded_off_policy(facts):
    placement = replace(facts.placement, shard_over=2)
    return algorithm(replay=ReplayNeeds(1))(replace(facts, placement=placement))


def actions_of_other_units(facts):
    """As many entries, but with another range."""
    actions = [replace(channel, low=-0.1, high=0.1) for channel in facts.envs["eval"].actions]
    return evaluation_env(actions=tuple(actions))(facts)


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (policy(action_dim=7), ("actor.model.action_dim", "must be 2", "got 7")),
        (policy(evaluation_only="fixed actions"), ("runner.only_eval", "fixed actions")),
        (policy(num_images=2), ("num_images_in_input", "top", "at most 1", "got 2")),
        (policy(state_dim=1), ("state of toy", "at most 1", "got 2")),
        (policy(action_horizon=1), ("num_action_chunks", "at most 1", "got 2")),
        (evaluation_env(states=()), ("env.train and env.eval", "state", "2 and 0")),
        (evaluation_env(cameras=()), ("env.train and env.eval", "cameras", "['top'] and []")),
        (algorithm(demonstrations=True), ("collect.path", "plain", "sft.enabled")),
        (imitation_without_a_loss, ("algorithm", "plain", "toy")),
        (sharded_off_policy, ("sharding_strategy", "no_shard", "plain")),
        (actions_of_other_units, ("env.train and env.eval", "actions", "0.1")),
        (policy(has_logprobs=False), ("algorithm must not be plain", "log-probs", "toy")),
        (algorithm(policy_ema=0.1), ("algorithm must not be plain", "exact_logprobs", "got 0.1")),
        (algorithm(policy_ema=0.0, exact_logprobs=False), ("policy_ema", "in (0, 1]", "got 0.0")),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(facts, reported, change, words):
    reported(change(facts()), *words)


def test_what_compares_no_logprobs_trains_a_policy_without_any(facts, problems):
    """And a critic that an algorithm wants is not asked for where log-probs are missing already."""
    without = policy(has_logprobs=False, value_dim=0)(facts())
    assert problems(algorithm(exact_logprobs=False)(without)) == []
    (problem,) = problems(algorithm(values=True)(without))
    assert "log-probs" in problem


@pytest.mark.parametrize(
    ("overrides", "dense", "words"),
    [
        (
            ["env.train.ignore_terminations=true"],
            False,
            ("env.train.ignore_terminations", "plain", "got true", "algorithm.demonstrations=0"),
        ),
        ([], True, ("env.train.reward=sparse", "plain", "toy")),
        (["collect.stride=3"], False, ("collect.stride", "4 env steps", "2 x", "got 3")),
    ],
)
def test_demonstrations_with_targets_are_like_own_episodes(
    facts, problems, reported, overrides, dense, words
):
    found = facts("sft.enabled=true", *overrides)
    train = replace(found.envs["train"], dense_reward=dense)
    found = replace(found, envs={**found.envs, "train": train})
    taught = AlgorithmNeeds(replay=ReplayNeeds(1), demonstrations=True)
    before = problems(replace(found, needs=taught))
    found = replace(found, needs=replace(taught, demonstration_chunks=2))
    assert len(problems(found)) == len(before) + 1
    reported(found, *words)


def test_a_policy_acts_in_an_env_like_the_one_it_was_trained_in(facts, problems, reported):
    """Unless supervised training is to learn the numbers anew."""
    known = replace(facts(), trained_in=EnvFacts.from_spec(facts().envs["train"]))
    assert problems(known) == []
    for part, change in (
        ("cameras", {"cameras": {"side": [8, 8]}}),
        ("action entries", {"actions": []}),
        ("state entries", {"states": []}),
    ):
        other = replace(known, trained_in=replace(known.trained_in, env="desk", **change))
        reported(other, f"{part} of env.train", "actor.model.model_path", "desk")
    learning = replace(facts("sft.enabled=true"), trained_in=other.trained_in)
    assert not any("state entries" in problem for problem in problems(learning))


def test_a_state_of_the_same_length_may_be_another_one(facts, problems, reported):
    """A published checkpoint names its data set, and its policy knows what state that has."""
    found = facts()
    env = found.envs["train"]
    assert [(channel.meaning, channel.size) for channel in env.states] == [("position", 2)]
    joints = replace(found.policy, states=(StateChannel("joint_position", 2),))
    words = ("states of env.train", "actor.model.model_path", "joint_position", "got position of")
    reported(replace(found, policy=joints), *words)
    assert problems(replace(found, policy=replace(joints, states=env.states))) == []
    # what rlcore itself wrote into the folder is nearer, and supervised training learns it anew
    trained_here = replace(found, policy=joints, trained_in=EnvFacts.from_spec(env))
    assert problems(trained_here) == []
    assert problems(replace(facts("sft.enabled=true"), policy=joints)) == []


@pytest.mark.parametrize(
    ("needs", "auto_reset", "refused"),
    [
        (AlgorithmNeeds(values=True, bootstrap_values=True), False, True),
        (AlgorithmNeeds(values=True), True, True),  # a column is cut in the midst of an episode
        (AlgorithmNeeds(values=True), False, False),
        (AlgorithmNeeds(replay=ReplayNeeds(1, final_decisions=True)), False, True),
        (AlgorithmNeeds(), True, False),
    ],
)
def test_bootstrapping_needs_final_frames(facts, problems, needs, auto_reset, refused):
    found = facts(f"env.train.auto_reset={auto_reset}", "actor.global_batch_size=256")
    found = replace(found, needs=needs)
    assert problems(found) == []
    train = replace(found.envs["train"], renders_final=False)
    without_final_frames = replace(found, envs={**found.envs, "train": train})
    keys = [problem.split()[0] for problem in problems(without_final_frames)]
    assert keys == (["env.train.render_final"] if refused else [])


def test_an_evaluation_asks_nothing_of_the_algorithm(facts, problems):
    overrides = ("actor.model.add_value_head=false", "actor.global_batch_size=256")
    (problem,) = problems(facts(*overrides))
    assert problem.startswith("actor.model.add_value_head")
    assert problems(facts(*overrides, "runner.only_eval=true")) == []
