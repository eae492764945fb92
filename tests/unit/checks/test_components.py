"""Env, policy and algorithm that do not fit each other are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.contracts.specs import AlgorithmNeeds, ReplayNeeds, StateChannel
from rlcore.runs.env_facts import EnvFacts


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["actor.model.add_value_head=false"],
         "actor.model.add_value_head must be true: plain needs values, got false"),
        (["algorithm.reward_type=action_level"],
         "algorithm.reward_type=action_level and logprob_type=chunk_level must go together with"),
        (["algorithm.reward_type=action_level", "algorithm.logprob_type=action_level"],
         "a value per action: the model's value_type=action_level"),
        (["actor.fsdp_config.gradient_checkpointing=true"],
         "gradient_checkpointing must be false: toy can't recompute activations"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_refused(facts, problems, overrides, sentence):
    assert any(sentence in said for said in problems(facts(*overrides)))


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: replace(f, policy=replace(f.policy, action_dim=7)),
         "actor.model.action_dim must be 2, the action entries of toy, got 7"),
        (lambda f: replace(f, policy=replace(f.policy, evaluation_only="its actions are fixed")),
         "runner.only_eval must be true: its actions are fixed, got false"),
        (lambda f: replace(f, policy=replace(f.policy, num_images=2)),
         "num_images_in_input must be at most 1, the cameras of toy (top), got 2"),
        (lambda f: replace(f, policy=replace(f.policy, state_dim=1)),
         "the state of toy must have at most 1 entries for toy, got 2"),
        (lambda f: replace(f, policy=replace(f.policy, action_horizon=1)),
         "num_action_chunks must be at most 1, the actions toy predicts, got 2"),
        (lambda f: replace(f, envs={**f.envs, "eval": replace(f.envs["eval"], states=())}),
         "env.train and env.eval must have the same state entries, got 2 and 0"),
        (lambda f: replace(f, envs={**f.envs, "eval": replace(f.envs["eval"], cameras=())}),
         "env.train and env.eval must have the same cameras, got ['top'] and []"),
        (lambda f: replace(f, needs=AlgorithmNeeds(demonstrations=True)),
         "collect.path must name a data set, as plain learns from demonstrations, or sft.enabled"),
        (lambda f: replace(f, needs=AlgorithmNeeds(imitation=True),
                           policy=replace(f.policy, sft_objective=None)),
         "algorithm must not be plain, which imitates: toy has no supervised loss"),
        (lambda f: replace(f, needs=AlgorithmNeeds(replay=ReplayNeeds(1)),
                           placement=replace(f.placement, shard_over=2)),
         "sharding_strategy must be no_shard with plain: processes that divide parameters"),
        # as many entries, but of other units
        (lambda f: replace(f, envs={**f.envs, "eval": replace(
            f.envs["eval"],
            actions=tuple(replace(a, low=-0.1, high=0.1) for a in f.envs["eval"].actions))}),
         "env.train and env.eval must have the same actions, got {'meaning': "),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_each_other_are_refused(facts, problems, change, sentence):
    assert any(sentence in said for said in problems(change(facts())))


def test_a_policy_acts_in_an_env_like_the_one_it_was_trained_in(facts, problems):
    """Unless supervised training is to learn the numbers anew."""
    known = replace(facts(), trained_in=EnvFacts.from_spec(facts().envs["train"]))
    assert problems(known) == []
    for change, sentence in (
        ({"cameras": {"side": [8, 8]}}, "cameras of env.train must be those with which"),
        (
            {"actions": []},
            "action entries of env.train must be those with which actor.model.model_path",
        ),
        ({"states": []}, "state entries of env.train"),
    ):
        other = replace(known, trained_in=replace(known.trained_in, env="desk", **change))
        assert any(
            said.startswith(sentence) and " of desk, got " in said for said in problems(other)
        )
    learning = replace(facts("sft.enabled=true"), trained_in=other.trained_in)
    assert not any("state entries of env.train" in said for said in problems(learning))


def test_a_state_of_the_same_length_may_be_another_one(facts, problems):
    """A published checkpoint names its data set, and its policy knows what state that has."""
    found = facts()
    env = found.envs["train"]
    assert [(channel.meaning, channel.size) for channel in env.states] == [("position", 2)]
    joints = replace(found.policy, states=(StateChannel("joint_position", 2),))
    (said,) = problems(replace(found, policy=joints))
    assert said.startswith("states of env.train must be those with which actor.model.model_path")
    assert "joint_position" in said and "got {'meaning': 'position', 'size': 2} of toy" in said
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
        (AlgorithmNeeds(), True, False),
    ],
)
def test_bootstrapping_needs_final_frames(facts, problems, needs, auto_reset, refused):
    found = facts(f"env.train.auto_reset={auto_reset}", "actor.global_batch_size=256")
    found = replace(found, needs=needs)
    assert problems(found) == []
    train = replace(found.envs["train"], renders_final=False)
    said = problems(replace(found, envs={**found.envs, "train": train}))
    assert [s.split(":")[0] for s in said] == (
        ["env.train.render_final must be true"] if refused else []
    )


def test_an_evaluation_asks_nothing_of_the_algorithm(facts, problems):
    overrides = ("actor.model.add_value_head=false", "actor.global_batch_size=256")
    assert any("plain needs values" in said for said in problems(facts(*overrides)))
    assert problems(facts(*overrides, "runner.only_eval=true")) == []
