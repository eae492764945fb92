"""Batches that do not divide, and schedules without an end, are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.checks.updates import (
    cosine_ends_before_the_run,
    max_steps_cuts_schedules,
    more_than_a_rank_gets,
)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("runner.max_epochs=-1", ("runner.max_epochs", "runner.max_steps", "-1")),
        ("algorithm.compare=true", ("algorithm.group_size", "at least 2", "plain")),
        (
            "algorithm.group_size=3",
            ("env.train.total_num_envs x rollout_epoch = 8", "algorithm.group_size", "got 3"),
        ),
        (
            "actor.global_batch_size=300",
            ("actor.global_batch_size", "micro_batch_size", "128 x 2 = 256", "got 300"),
        ),
    ],
)
def test_updates_that_do_not_fit_are_refused(facts, reported, override, words):
    reported(facts(override), *words)


CHOOSES = ("runner.keep_best=true", "env.validation.trials_per_task=3")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        # null is a tenth of 50
        (("runner.max_epochs=50", "runner.val_check_interval=2"), ("null (5)", "= 2")),
        (("runner.save_interval=3", "runner.val_check_interval=2"), ("got 3", "= 2")),
        (("runner.max_steps=1000", "runner.val_check_interval=1"), ("null (by max_steps)",)),
    ],
)
def test_checkpoints_that_another_policy_would_judge_are_refused(
    facts, reported, problems, overrides, words
):
    keys = ("runner.save_interval", "runner.val_check_interval")
    reported(facts(*CHOOSES, *overrides), *keys, *words)
    assert not problems(facts(CHOOSES[1], *overrides)), "the last checkpoint is the one evaluated"


COSINE = "actor.optim.lr_scheduler=cosine"
TOTAL = "actor.optim.total_training_steps"


def test_a_cosine_ends_with_the_run_where_its_steps_are_known(facts, reported, problems):
    def known(*overrides):
        found = facts(COSINE, "runner.max_epochs=3", *overrides)
        return replace(found, needs=replace(found.needs, policy_steps=5, final_policy_steps=2))

    endless = ("runner.max_epochs=-1", "runner.max_steps=9")
    assert not problems(known()) and not problems(facts(COSINE))
    reported(known("actor.optim.lr_warmup_steps=17"), TOTAL, "lr_warmup_steps = 17", "got 17")
    reported(known(*endless), TOTAL, "runner.max_epochs", "-1")
    frozen = known(*endless)
    assert not problems(replace(frozen, needs=replace(frozen.needs, frozen=True)))
    (sentence,) = cosine_ends_before_the_run(known(f"{TOTAL}=16"))
    assert f"{TOTAL}=16 is less than the up to 17 steps" in sentence
    assert not [*cosine_ends_before_the_run(known(f"{TOTAL}=17"))]
    assert not [*cosine_ends_before_the_run(known())]


def test_schedules_that_a_limit_of_env_steps_may_cut_are_warned_of(facts):
    limited = facts(COSINE, "runner.max_epochs=3", "runner.max_steps=9")
    (sentence,) = max_steps_cuts_schedules(limited)
    assert "runner.max_steps=9" in sentence and "runner.max_epochs=3" in sentence
    assert not [*max_steps_cuts_schedules(facts("runner.max_epochs=3", "runner.max_steps=9"))]
    assert not [*max_steps_cuts_schedules(facts(COSINE, "runner.max_epochs=3"))]


def test_checkpoints_at_every_second_evaluation_are_judged(facts, problems):
    config = facts(*CHOOSES, "runner.save_interval=4", "runner.val_check_interval=2")
    assert not problems(config)


def test_a_rank_that_gets_less_than_a_micro_batch_takes_it_as_one(facts, problems, snapshot):
    """A recipe for one machine on two: 160 chunks for two ranks are 80 each, with a warning."""
    fewer = facts("actor.global_batch_size=160")
    assert not any("global_batch_size" in problem for problem in problems(fewer))
    (warning,) = more_than_a_rank_gets(fewer)
    assert warning.startswith("actor.micro_batch_size=128") and " 80 chunks" in warning
    assert warning == snapshot
    assert not list(more_than_a_rank_gets(facts("actor.global_batch_size=256")))
    uneven = facts("actor.global_batch_size=161")
    assert any("got 161" in problem for problem in problems(uneven))


def test_a_batch_that_no_step_has_need_not_divide(facts, problems, monkeypatch):
    odd = facts("actor.global_batch_size=300")
    unused = {"actor.global_batch_size": "it has steps of its own"}
    monkeypatch.setattr(type(odd.config.algorithm), "unused", unused)
    assert not any("global_batch_size" in problem for problem in problems(odd))


def test_shares_of_a_run_without_a_last_update_are_refused(facts, problems, reported):
    endless = facts("runner.max_epochs=-1", "runner.max_steps=100")
    assert not problems(endless)
    reported(
        replace(endless, needs=replace(endless.needs, limited_updates=True)),
        "runner.max_epochs",
        "plain",
        "-1",
    )
