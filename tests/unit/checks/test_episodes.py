"""Episodes that can't be played as asked are refused, with the numbers in the sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.held_out import evaluated_starts, starts_in_words


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["env.train.max_steps_per_rollout_epoch=40"],
         "env.train.max_steps_per_rollout_epoch must be 20 (max_episode_steps) without "
         "auto_reset, got 40"),
        (["env.train.max_steps_per_rollout_epoch=10"], "must be at least max_episode_steps = 20"),
        (["env.train.auto_reset=true", "env.train.max_steps_per_rollout_epoch=41"],
         "must be divisible by actor.model.num_action_chunks = 2, got 41"),
        (["actor.model.num_action_chunks=21"],
         "num_action_chunks must be at most env.train.max_episode_steps = 20, got 21"),
        (["env.eval.trials_per_task=1001"],
         "env.eval.trials_per_task must be at most 1000 (the heldout trials of toy), got 1001"),
        (["env.eval.rollout_epoch=2"],
         "env.eval.rollout_epoch must be 1 with rollout.eval_deterministic=true: without "
         "exploration toy draws nothing"),
        (["rollout.eval_temperature=1.6"],
         "rollout.eval_temperature must be null or 1: toy does not sample tokens, got 1.6"),
    ],
)  # fmt: skip
def test_episodes_that_do_not_fit_are_refused(facts, problems, overrides, sentence):
    assert any(sentence in said for said in problems(facts(*overrides)))


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_starts_that_are_trained_on_are_measured_only_where_asked_for(facts, problems, split):
    same = [f"env.train.split={split}", f"env.eval.split={split}"]
    number = {"train": 0, "heldout": 1000}[split]
    (said,) = problems(facts("actor.global_batch_size=256", *same))
    assert said.startswith(
        f"env.eval must not visit starts that env.train trains on, got reach-left trial {number}, "
        f"reach-left trial {number + 1} and 38 more"
    )
    assert "env.eval.allow_training_trials=true" in said
    for allowed in (
        ["env.eval.allow_training_trials=true"],
        ["runner.only_eval=true"],  # nothing is trained
        ["env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]"],
    ):
        assert problems(facts("actor.global_batch_size=256", *same, *allowed)) == []


def test_trials_to_train_and_to_judge_are_disjoint(facts, problems):
    found = facts()
    evaluation = replace(found.envs["eval"], heldout_trials=range(999, 1001))
    said = problems(replace(found, envs={**found.envs, "eval": evaluation}))
    sentence = "train and held-out trials of toy (env.eval) must be disjoint"
    assert any(sentence in each for each in said)


def test_an_env_without_trials_is_not_trained_in(facts, problems):
    sentence = "env.train.split must name trials that toy has: there are no train trials"
    for overrides, refused in (([], True), (["runner.only_eval=true"], False)):
        found = facts(*overrides)
        none = replace(found.envs["train"], train_trials=range(0))
        said = problems(replace(found, envs={**found.envs, "train": none}))
        assert (sentence in said) is refused


def test_passes_and_temperatures_that_mean_something(facts, problems):
    twice = ("actor.global_batch_size=256", "env.eval.rollout_epoch=2")
    assert problems(facts(*twice, "rollout.eval_deterministic=false")) == []
    assert problems(facts(*twice[:1], "rollout.eval_temperature=1")) == []
    found = facts(*twice, "rollout.eval_temperature=0.6")
    flow = replace(found.policy, starts_from_noise=True, has_temperature=True)
    assert problems(replace(found, policy=flow)) == []


def test_validation_starts_are_neither_trained_on_nor_held_out(facts, problems):
    found = facts("env.eval.split=validation", "env.eval.trials_per_task=3")
    assert not [said for said in problems(found) if "trials" in said or "split" in said]
    assert starts_in_words(found.config, found.envs) == "validation starts"
    visited = {trial for _, trial in evaluated_starts(found.config, found.envs)}
    spec = found.envs["eval"]
    assert visited == set(spec.validation_trials[:3])
    assert not visited & {*spec.train_trials, *spec.heldout_trials}
    none = replace(spec, validation_trials=range(0))
    said = problems(replace(found, envs={**found.envs, "eval": none}))
    assert any("must be at most 0 (the validation trials of toy), got 3" in each for each in said)
