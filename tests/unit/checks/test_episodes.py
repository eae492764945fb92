"""Episodes that can't be played as the configuration asks are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.held_out import evaluated_starts, starts_in_words


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["env.train.max_steps_per_rollout_epoch=40"], ("must be 20", "auto_reset", "got 40")),
        (["env.train.max_steps_per_rollout_epoch=10"], ("max_episode_steps = 20", "got 10")),
        (
            ["env.train.auto_reset=true", "env.train.max_steps_per_rollout_epoch=41"],
            ("actor.model.num_action_chunks = 2", "got 41"),
        ),
        (["actor.model.num_action_chunks=21"], ("env.train.max_episode_steps = 20", "got 21")),
        (["env.eval.trials_per_task=1001"], ("at most 1000", "heldout", "got 1001")),
        (["env.eval.rollout_epoch=2"], ("must be 1", "rollout.eval_deterministic=true")),
        (["rollout.eval_temperature=1.6"], ("toy", "got 1.6")),
    ],
)
def test_episodes_that_do_not_fit_are_refused(facts, reported, overrides, words):
    key = overrides[-1].partition("=")[0]
    reported(facts(*overrides), key, *words)


@pytest.mark.parametrize(("split", "number"), [("train", 0), ("heldout", 1000)])
def test_starts_that_are_trained_on_are_measured_only_where_asked_for(
    facts, problems, reported, split, number
):
    same = ["actor.global_batch_size=256", f"env.train.split={split}", f"env.eval.split={split}"]
    shared = (f"reach-left trial {number}", f"reach-left trial {number + 1}", "38 more")
    reported(facts(*same), "env.eval", "env.eval.allow_training_trials=true", *shared)
    for allowed in (
        ["env.eval.allow_training_trials=true"],
        ["runner.only_eval=true"],  # nothing is trained
        ["env.train.tasks=[reach-up]", "env.eval.tasks=[reach-down]"],
    ):
        assert problems(facts(*same, *allowed)) == []


def test_trials_to_train_and_to_judge_are_disjoint(facts, reported):
    found = facts()
    evaluation = replace(found.envs["eval"], heldout_trials=range(999, 1001))
    overlapping = replace(found, envs={**found.envs, "eval": evaluation})
    reported(overlapping, "train and held-out trials", "toy", "env.eval")


def test_an_env_without_trials_is_not_trained_in(facts, problems):
    for overrides, refused in (([], True), (["runner.only_eval=true"], False)):
        found = facts(*overrides)
        none = replace(found.envs["train"], train_trials=range(0))
        without_trials = problems(replace(found, envs={**found.envs, "train": none}))
        assert any(text.startswith("env.train.split") for text in without_trials) is refused


def test_repeated_passes_and_temperatures_that_have_an_effect(facts, problems):
    twice = ("actor.global_batch_size=256", "env.eval.rollout_epoch=2")
    assert problems(facts(*twice, "rollout.eval_deterministic=false")) == []
    assert problems(facts(*twice[:1], "rollout.eval_temperature=1")) == []
    found = facts(*twice, "rollout.eval_temperature=0.6")
    flow = replace(found.policy, starts_from_noise=True, has_temperature=True)
    assert problems(replace(found, policy=flow)) == []


@pytest.mark.parametrize("evaluates", ["true", "false"])
def test_passes_differ_where_the_acting_head_draws(facts, problems, evaluates):
    """Also in an evaluation, in which the algorithm's networks act."""
    twice = ("actor.global_batch_size=256", "env.eval.rollout_epoch=2")
    found = facts(*twice, f"runner.only_eval={evaluates}")
    assert any("env.eval.rollout_epoch" in problem for problem in problems(found))
    drawing = replace(found, acting_needs=replace(found.acting_needs, draws=True))
    assert problems(drawing) == []


def test_validation_starts_are_neither_trained_on_nor_held_out(facts, problems, reported):
    found = facts("env.eval.split=validation", "env.eval.trials_per_task=3")
    assert not [text for text in problems(found) if "trials" in text or "split" in text]
    assert starts_in_words(found.config, found.envs) == "validation starts"
    visited = {trial for _, trial in evaluated_starts(found.config, found.envs)}
    spec = found.envs["eval"]
    assert visited == set(spec.validation_trials[:3])
    assert not visited & {*spec.train_trials, *spec.heldout_trials}
    none = replace(spec, validation_trials=range(0))
    without_trials = replace(found, envs={**found.envs, "eval": none})
    reported(without_trials, "env.eval.trials_per_task", "at most 0", "validation", "got 3")


@pytest.mark.parametrize("side", ["train", "eval"])
def test_an_env_of_recorded_episodes_spares_only_its_own_side(facts, problems, side):
    """A policy that is learned from a data set is evaluated in a simulator, with its checks."""
    wrong = [
        *("actor.global_batch_size=256", "env.eval.trials_per_task=1001"),
        *("env.eval.rollout_epoch=2", "rollout.eval_temperature=1.6"),
        *("env.train.max_steps_per_rollout_epoch=10", "env.eval.max_steps_per_rollout_epoch=10"),
    ]
    found = facts(*wrong)
    none = {"train_trials": range(0), "heldout_trials": range(0), "unplayable": "plays none"}
    recorded = {**found.envs, side: replace(found.envs[side], **none)}
    keys = [text.split()[0] for text in problems(replace(found, envs=recorded))]
    of_eval = ["env.eval.trials_per_task", "env.eval.rollout_epoch", "rollout.eval_temperature"]
    played = "eval" if side == "train" else "train"
    columns = [f"env.{played}.max_steps_per_rollout_epoch"]
    assert sorted(keys) == sorted(columns + (of_eval if side == "train" else []))
