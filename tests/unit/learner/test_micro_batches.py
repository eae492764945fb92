"""A micro-batch that does not fit is halved, and the minibatch made again."""

from __future__ import annotations

import pytest
import torch

from rlcore.contracts.errors import MicroBatchError, TrainingError
from rlcore.learner.micro_batches import MicroBatches


def limited(policy, most):
    """Let a forward of more than `most` rows run out of memory."""
    whole = policy.evaluate

    def evaluate(inputs, replay):
        if len(inputs["features"]) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return whole(inputs, replay)

    policy.evaluate = evaluate


@pytest.mark.parametrize("settings", [{}, {"kl_beta": 0.1, "recompute_logprobs": True}])
def test_the_update_is_that_of_micro_batches_that_fit(bench, acted, settings):
    small = bench(actor={"micro_batch_size": 2}, **settings)
    large = bench(actor={"micro_batch_size": 8}, **settings)
    limited(large.policy, 2)
    trajectory = acted(small.policy, chunks=6, columns=5)
    expected = small.learner.update(trajectory, 0)
    found = large.learner.update(trajectory, 0)
    assert found.pop("train/actor/micro_batch_size") == 2.0  # 8 -> 4 -> 2
    assert found == expected
    for expected, other in zip(small.policy.parameters(), large.policy.parameters(), strict=True):
        assert torch.equal(expected, other)
    again = large.learner.update(trajectory, 1)
    assert "train/actor/micro_batch_size" not in again  # said once


def test_gradients_before_an_out_of_memory_are_dropped(bench, acted):
    """The third forward of the minibatch fails once: the first two must not count twice."""
    whole = bench(actor={"micro_batch_size": 4})
    broken = bench(actor={"micro_batch_size": 7})
    trajectory = acted(whole.policy, chunks=6, columns=5)
    evaluate = broken.policy.evaluate
    calls = []

    def fails_once(inputs, replay):
        calls.append(len(inputs["features"]))
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return evaluate(inputs, replay)

    broken.policy.evaluate = fails_once
    whole.learner.update(trajectory, 0)
    broken.learner.update(trajectory, 0)  # half of 7, rounded up: 4
    for expected, other in zip(whole.policy.parameters(), broken.policy.parameters(), strict=True):
        assert torch.equal(expected, other)


def test_a_single_sample_that_does_not_fit_is_refused(refused, bench, acted):
    alone = bench(actor={"micro_batch_size": 2})
    trajectory = acted(alone.policy)
    limited(alone.policy, 0)
    words = ("micro_batch_size=1", "CUDA", "gradient_checkpointing=true")
    with refused(TrainingError, *words):
        alone.learner.update(trajectory, 0)


def test_in_lockstep_the_size_to_set_is_named(refused):
    def work():
        raise torch.OutOfMemoryError("CUDA out of memory")

    with refused(MicroBatchError, "micro_batch_size=6", "actor.micro_batch_size to 3"):
        MicroBatches(6, lockstep=True).retry_on_oom(work, lambda: None)
    with refused(TrainingError, "micro_batch_size=1"):  # nothing smaller is left
        MicroBatches(1, lockstep=True).retry_on_oom(work, lambda: None)


def test_samples_are_split_and_none_are_no_micro_batch():
    """A rank may hold none of a step's samples; some networks refuse a forward of no rows."""
    micro = MicroBatches(2, lockstep=False)
    assert [piece.tolist() for piece in micro.split(3)] == [[0, 1], [2]]
    assert [*micro.split(0)] == []
