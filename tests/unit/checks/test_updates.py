"""Batches that do not divide, and schedules without an end, are refused."""

from __future__ import annotations

import pytest

from rlcore.checks.updates import more_than_a_rank_gets


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["runner.max_epochs=-1"],
         "runner.max_epochs or runner.max_steps must be at least 1, or training never ends, got -1 "
         "and -1"),
        (["algorithm.compare=true"], "algorithm.group_size must be at least 2: plain compares"),
        (["algorithm.group_size=3"],
         "env.train.total_num_envs x rollout_epoch = 8 must be divisible by algorithm.group_size, "
         "got 3"),
        (["actor.global_batch_size=300"],
         "actor.global_batch_size must be divisible by micro_batch_size x actor ranks = 128 x 2 = "
         "256, got 300"),
        (["actor.optim.lr_scheduler=cosine"],
         "actor.optim.total_training_steps must be more than lr_warmup_steps = 0 for "
         "lr_scheduler=cosine, got None"),
    ],
)  # fmt: skip
def test_updates_that_do_not_fit_are_refused(facts, problems, overrides, sentence):
    assert any(sentence in said for said in problems(facts(*overrides)))


def test_a_rank_that_gets_less_than_a_micro_batch_takes_it_as_one(facts, problems):
    """A recipe for one machine on two: 160 chunks for two ranks are 80 each, which is said."""
    fewer = facts("actor.global_batch_size=160")
    assert not any("global_batch_size" in said for said in problems(fewer))
    (said,) = more_than_a_rank_gets(fewer)
    assert said == (
        "actor.micro_batch_size=128 is more than each of 2 actor processes gets of "
        "actor.global_batch_size=160, 80 chunks on average: no micro-batch is larger"
    )
    assert not list(more_than_a_rank_gets(facts("actor.global_batch_size=256")))
    uneven = facts("actor.global_batch_size=161")
    assert any("got 161" in said for said in problems(uneven))


def test_a_batch_that_no_step_has_need_not_divide(facts, problems, monkeypatch):
    odd = facts("actor.global_batch_size=300")
    unused = {"actor.global_batch_size": "it has steps of its own"}
    monkeypatch.setattr(type(odd.config.algorithm), "unused", unused)
    assert not any("global_batch_size" in said for said in problems(odd))
