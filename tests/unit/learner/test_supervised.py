"""Supervised training: keyed batches, validation, plateau, control."""

import copy
import itertools
import json
import time
from dataclasses import replace

import pytest
import torch

from rlcore.config.schema import SFTConfig
from rlcore.contracts.errors import ConfigError, PolicyError, TrainingError
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner.optim import PolicyOptimizer
from rlcore.learner.supervised import SupervisedHistory, SupervisedTrainer

CONFIG = SFTConfig(max_steps=60, batch_size=16, lr=0.02, lr_warmup_steps=5, val_interval=10)


@pytest.fixture
def policy(bench):
    return bench().policy


def samples(count, *, seed):
    """Actions a linear map of the features plus a little noise, some past the end."""
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 4, generator=random)
    weights = torch.randn(4, 6, generator=torch.Generator().manual_seed(7))
    actions = (features @ weights).view(count, 3, 2)
    actions = actions + 0.1 * torch.randn(actions.shape, generator=random)
    mask = torch.ones(count, 3, dtype=torch.bool)
    mask[::5, 2] = False
    return SupervisedSamples({"features": features}, actions, mask)


def data():
    """100 training samples and 33 for validation."""
    return samples(100, seed=1), samples(33, seed=2)


def test_it_learns_and_validates_at_its_interval(policy):
    critic = copy.deepcopy(policy.value.state_dict())
    seen = []
    trainer = SupervisedTrainer(policy, CONFIG, *data(), seed=0)
    history = trainer.train(on_progress=seen.append)
    assert [step for step, _ in history.val_loss] == [0, 10, 20, 30, 40, 50, 60]
    assert history.val_loss[-1][1] < 0.2 * history.val_loss[0][1]
    assert [step for step, _ in history.train_loss] == list(range(60)) and history.steps == 60
    assert [state["steps"] for state in seen] == list(range(1, 61))
    assert [state["train_loss"] for state in seen] == [loss for _, loss in history.train_loss]
    assert seen[-1]["val_loss"] == history.val_loss[-2][1]  # the last one comes after the end
    assert 0 < seen[0]["seconds"] < seen[-1]["seconds"] < history.seconds
    assert history.stopped == "sft.max_steps=60"
    assert all(torch.equal(critic[n], x) for n, x in policy.value.state_dict().items())
    json.dumps(history.summary())


def test_it_repeats_bit_for_bit_and_depends_on_the_seed(policy):
    others = itertools.count()

    def run(seed):
        fresh = copy.deepcopy(policy)
        torch.manual_seed(next(others))  # the global generator has no say
        history = SupervisedTrainer(fresh, CONFIG, *data(), seed=seed).train()
        return history.train_loss, history.val_loss

    assert run(0) == run(0)
    assert run(0) != run(1)


def test_validation_is_the_same_each_time_and_a_mean_over_samples(policy):
    train, val = data()  # 16 + 16 + 1
    trainer = SupervisedTrainer(policy, CONFIG, train, val, seed=0)
    first = trainer.validate(val)
    assert trainer.validate(val) == first
    small = SFTConfig(batch_size=1)
    one_by_one = SupervisedTrainer(policy, small, train, val, seed=0).validate(val)
    assert one_by_one == pytest.approx(first, rel=1e-5)


def test_a_control_counts_samples_and_draws_other_batches(policy):
    made = CONFIG.max_steps
    history = SupervisedTrainer(policy, CONFIG, *data(), seed=0, made=made, samples=33).train()
    assert history.steps == 3 and history.batch_size == 16  # 16 + 16 + 1, in whole steps
    assert "33" in history.stopped
    # steps are numbered on from those that were made, so batches differ
    assert history.train_loss[0][0] == CONFIG.max_steps
    assert history.val_loss[0][0] == 60 and history.val_loss[-1][0] == 60 + history.steps


def test_a_control_does_not_depend_on_the_machine(policy, monkeypatch):
    """On a slow one the same steps are made; in parts, as evaluations cut them, too."""

    def made(parts, pause):
        fresh = copy.deepcopy(policy)
        trainer = SupervisedTrainer(fresh, CONFIG, *data(), seed=0, samples=100)
        with monkeypatch.context() as patched:
            step = PolicyOptimizer.step

            def paused(optimizer):
                time.sleep(pause)
                return step(optimizer)

            patched.setattr(PolicyOptimizer, "step", paused)
            for part in range(1, parts):
                trainer.train(round(7 * part / parts))
            history = trainer.train()
        return history.train_loss, [parameter.detach().clone() for parameter in fresh.parameters()]

    (losses, weights), *others = made(1, 0), made(1, 0.02), made(3, 0)
    assert len(losses) == 7
    for other_losses, other_weights in others:
        assert other_losses == losses
        assert all(map(torch.equal, weights, other_weights))


def test_no_work_is_no_step(policy):
    none = samples(0, seed=0)
    trainer = SupervisedTrainer(policy, CONFIG, samples(20, seed=1), none, seed=0, samples=0)
    assert trainer.train().steps == 0


@pytest.mark.parametrize("ends", [(23,), (10, 20, 60), (50, 51)])
def test_training_that_is_saved_and_loaded_in_a_new_process_gives_the_same_bits(policy, ends):
    """At a validation, between two, and where the last 50 steps begin before the save."""
    whole = copy.deepcopy(policy)
    expected = SupervisedTrainer(whole, CONFIG, *data(), seed=0).train()
    saved = None
    for end in ends:
        policy = copy.deepcopy(policy)  # as it is loaded from a file
        trainer = SupervisedTrainer(policy, CONFIG, *data(), seed=0)
        if saved is not None:
            trainer.load_state_dict(saved)
        history = trainer.train(end)
        assert history.steps == end and not history.stopped
        state = trainer.state_dict()
        saved = {"tensors": state["tensors"], "state": json.loads(json.dumps(state["state"]))}
    policy = copy.deepcopy(policy)
    trainer = SupervisedTrainer(policy, CONFIG, *data(), seed=0)
    trainer.load_state_dict(saved)
    history = trainer.train()
    assert {**history.summary(), "seconds": 0} == {**expected.summary(), "seconds": 0}
    assert history.seconds > 0
    assert all(map(torch.equal, whole.parameters(), policy.parameters()))


@pytest.fixture
def rates(monkeypatch):
    """The learning rate at each step of an optimizer."""
    seen = []
    step = PolicyOptimizer.step

    def noted(optimizer):
        seen.append(optimizer.learning_rates()["policy"])
        return step(optimizer)

    monkeypatch.setattr(PolicyOptimizer, "step", noted)
    return seen


def test_a_cosine_is_over_all_steps_by_hand(policy, rates):
    config = replace(CONFIG, max_steps=4, lr=0.02, lr_warmup_steps=2, lr_scheduler="cosine")
    SupervisedTrainer(policy, config, samples(20, seed=1), samples(0, seed=0), seed=0).train()
    # warm-up 1/2, 1, 1, 1 times (1 + cos) / 2 of 0, pi/4, pi/2, 3 pi/4
    assert rates == pytest.approx([0.01, 0.02 * 0.8535534, 0.01, 0.02 * 0.1464466])


def test_the_cosine_of_a_control_is_over_its_steps(policy, rates):
    config = replace(CONFIG, lr=0.02, lr_warmup_steps=0, lr_scheduler="cosine")
    none = samples(0, seed=0)
    trainer = SupervisedTrainer(policy, config, samples(20, seed=1), none, seed=0, samples=64)
    trainer.train(2)
    trainer.train()
    # (1 + cos) / 2 of 0, pi/4, pi/2, 3 pi/4
    assert rates == pytest.approx([0.02, 0.02 * 0.8535534, 0.01, 0.02 * 0.1464466])


def history_of(losses):
    return SupervisedHistory(val_loss=[(10 * i, loss) for i, loss in enumerate(losses)])


def test_plateau_by_hand():
    # steps 0 .. 80: the last quarter is 70 and 80. Best before 0.5, late 0.49: 2% better
    level = history_of([1, 0.8, 0.6, 0.55, 0.5, 0.51, 0.52, 0.49, 0.5])
    assert level.late_improvement == pytest.approx(0.02)
    assert level.plateaued and level.best_step == 70
    # best before 0.6, late 0.45: 25% better
    falling = history_of([1, 0.9, 0.8, 0.7, 0.65, 0.62, 0.6, 0.5, 0.45])
    assert falling.late_improvement == pytest.approx(0.25)
    assert not falling.plateaued
    rising = history_of([1, 0.5, 0.6, 0.7, 0.8])  # steps 0 .. 40: the last quarter is 40
    assert rising.late_improvement == pytest.approx(-0.6)
    assert rising.plateaued and rising.best_step == 10


def test_patience_sets_the_late_validations():
    losses = [1, 0.8, 0.6, 0.55, 0.5, 0.51, 0.52, 0.49, 0.5]
    history = history_of(losses)
    history.patience = 5  # late: 0.5 .. 0.5, best 0.49; before: best 0.55, so 11% better
    assert history.late_improvement == pytest.approx(0.06 / 0.55)
    assert not history.plateaued
    history.patience = 9  # nothing is left to compare with
    assert history.late_improvement is None and not history.plateaued


def test_training_ends_when_patience_does(policy, monkeypatch):
    losses = iter([1.0, 0.6, 0.4, 0.39, 0.41, 0.1])
    config = replace(CONFIG, val_interval=7, patience=2)
    trainer = SupervisedTrainer(policy, config, *data(), seed=0)
    monkeypatch.setattr(trainer, "validate", lambda _: next(losses))
    history = trainer.train()
    # after 28 steps the last two, 0.39 and 0.41, are less than 5% below the 0.4 before them
    assert [loss for _, loss in history.val_loss] == [1.0, 0.6, 0.4, 0.39, 0.41]
    assert history.steps == 28 < CONFIG.max_steps and history.plateaued
    assert "sft.patience=2" in history.stopped


def test_without_validation_there_is_no_plateau(policy):
    none = samples(0, seed=0)
    history = SupervisedTrainer(policy, CONFIG, samples(20, seed=1), none, seed=0).train()
    assert history.val_loss == [] and history.best_step is None
    assert history.late_improvement is None and not history.plateaued


class Deaf:
    """Mixed into a policy: its loss does not depend on what is trained."""

    def sft_loss(self, *arguments):
        return 0 * super().sft_loss(*arguments)


class Broken:
    """Mixed into a policy: its loss is NaN."""

    def sft_loss(self, *arguments):
        return float("nan") * super().sft_loss(*arguments)


def mixed(policy, flaw):
    policy.__class__ = type("Flawed", (flaw, type(policy)), {})
    return policy


def test_steps_without_a_gradient_are_counted(policy):
    none = samples(0, seed=0)
    well = SupervisedTrainer(policy, CONFIG, samples(20, seed=1), none, seed=0).train()
    assert well.zero_gradient_steps == 0
    deaf = SupervisedTrainer(mixed(policy, Deaf), CONFIG, samples(20, seed=1), none, seed=0).train()
    assert deaf.zero_gradient_steps == deaf.steps == 60


def test_a_loss_of_nan_is_refused_without_validation(refused, policy):
    none = samples(0, seed=0)
    with refused(TrainingError, "50 of its last 50 steps"):
        SupervisedTrainer(mixed(policy, Broken), CONFIG, samples(20, seed=1), none, seed=0).train()


class SometimesBroken:
    """Mixed into a policy: of `every` losses in a row, the last `bad` are NaN."""

    every = 0
    bad = 0
    asked = 0

    def sft_loss(self, *arguments):
        place = type(self).asked % self.every
        type(self).asked += 1
        wrong = place >= self.every - self.bad
        return (float("nan") if wrong else 1.0) * super().sft_loss(*arguments)


def sometimes_broken(policy, every, bad, steps):
    flaw = type("Flaw", (SometimesBroken,), {"every": every, "bad": bad, "asked": 0})
    config = replace(CONFIG, max_steps=steps)
    none = samples(0, seed=0)
    return SupervisedTrainer(mixed(policy, flaw), config, samples(20, seed=1), none, seed=0)


@pytest.mark.parametrize(
    ("every", "bad", "steps", "skipped"),
    [
        (4, 3, 60, "37 of its last 50 steps"),
        (4, 3, 40, "30 of its 40 steps"),
        (100, 30, 100, "26 of its last 50 steps"),  # it learned first, and then no more
    ],
)
def test_skipped_steps_most_of_the_time_are_refused(refused, policy, every, bad, steps, skipped):
    with refused(TrainingError, skipped):
        sometimes_broken(policy, every, bad, steps).train()


@pytest.mark.parametrize(("every", "bad"), [(4, 1), (2, 1)])
def test_skipped_steps_are_counted(policy, every, bad):
    trainer = sometimes_broken(policy, every, bad, CONFIG.max_steps)
    history = trainer.train()
    assert (history.steps, history.skipped_steps) == (60, 60 * bad // every)
    made = [step for step in range(60) if step % every < every - bad]
    assert [step for step, _ in history.train_loss] == made
    json.dumps(history.summary(), allow_nan=False)


def test_a_weight_of_infinity_is_refused_without_validation(refused, policy):
    with torch.no_grad():
        policy.mean.weight[0, 0] = float("inf")
    config = replace(CONFIG, max_steps=0)
    none = samples(0, seed=0)
    trainer = SupervisedTrainer(mixed(policy, Deaf), config, samples(20, seed=1), none, seed=0)
    with refused(TrainingError, "sft.lr"):
        trainer.train()


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        (lambda policy: None, "dict"),
        (lambda policy: [torch.nn.Parameter(torch.ones(2))], "policy[0]"),
        (lambda policy: list(policy.parameters()), "value[0]"),
    ],
    ids=["no dict", "of another module", "in two groups"],
)
def test_invalid_parameter_groups_are_refused(refused, policy, parameters, word):
    value = list(policy.value.parameters())
    group = parameters(policy)
    policy.parameter_groups = lambda: [] if group is None else {"policy": group, "value": value}
    with refused(PolicyError, "parameter_groups", word):
        SupervisedTrainer(policy, CONFIG, *data(), seed=0)


def test_no_demonstrations_are_refused(refused, policy):
    with refused(ConfigError, "collect.episodes_per_task"):
        SupervisedTrainer(policy, CONFIG, samples(0, seed=0), samples(3, seed=0), seed=0)
