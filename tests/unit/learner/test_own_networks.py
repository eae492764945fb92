"""Steps on networks of the algorithm: what they train, their target networks, their state."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlcore.contracts.errors import AlgorithmError, CheckpointError, TrainingError
from rlcore.contracts.specs import NetworkNeeds, ReplayNeeds
from rlcore.rollout.columns import take

sys.path.insert(0, str(Path(__file__).parent))
import own_networks
from own_networks import LAG, OwnCritic, made, networks, weights

# the policy has no critic: its value layer has no rows
pytestmark = pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
SECONDS = 800.0
WEIGHT = "value_of.weight"


class CriticAlone(OwnCritic):
    def updates(self, learning):
        yield next(super().updates(learning))


class PolicyAlone(OwnCritic):
    def __init__(self):
        super().__init__(critic_steps=0)


def test_a_step_trains_only_the_networks_it_names(play):
    learner, policy = made(CriticAlone())
    before = copy.deepcopy(policy.state_dict())
    first = networks(learner)
    metrics = learner.update(play(value_width=0), 0)
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.state_dict().items())
    assert not torch.equal(first[WEIGHT], networks(learner)[WEIGHT])
    assert metrics["train/actor/optimizer_steps"] == 1.0
    assert {"train/value_of/loss", "train/value_of/grad_norm"} <= metrics.keys()
    # its loss passes through the critic, which stays
    learner, policy = made(PolicyAlone())
    critic = networks(learner)
    learner.update(play(value_width=0), 0)
    assert not torch.equal(before["mean.weight"], policy.mean.weight)
    assert all(torch.equal(critic[name], now) for name, now in networks(learner).items())
    assert all(parameter.requires_grad for parameter in policy.parameters())


def test_a_rollout_beyond_the_capacity_of_the_replay_is_kept_with_a_warning(play):
    algorithm = CriticAlone()
    algorithm.needs = replace(algorithm.needs, replay=ReplayNeeds(1))
    learner, _ = made(algorithm)
    metrics = learner.update(play(value_width=0), 0)
    assert metrics["train/actor/optimizer_steps"] == 1.0
    assert "capacity" in learner.warnings["replay"]


def test_learning_rates_are_those_of_the_groups_that_were_trained(play):
    learner, _ = made(PolicyAlone(), lr=0.5)
    metrics = learner.update(play(value_width=0), 0)
    rates = {name: value for name, value in metrics.items() if name.endswith("/lr")}
    assert rates == {"train/actor/lr": 0.5}
    learner, _ = made(CriticAlone(), lr=0.5)
    metrics = learner.update(play(value_width=0), 0)
    assert metrics["train/value_of/lr"] == own_networks.LR


def test_settings_of_the_policys_optimizer_change_the_policy_alone(play):
    """A network has an optimizer of its own, whose settings are the algorithm's."""
    trained = []
    others = {"adam_beta1": 0.5, "adam_beta2": 0.5, "weight_decay": 0.5, "clip_grad": 1e-3}
    for settings in ({}, others):
        learner, policy = made(**settings)
        learner.update(play(value_width=0), 0)
        trained.append((policy.mean.weight, networks(learner)[WEIGHT]))
    (policy, critic), (other_policy, other_critic) = trained
    assert torch.equal(critic, other_critic)
    assert not torch.equal(policy, other_policy)


def test_each_network_of_a_step_has_its_own_gradient_norm(play):
    """The loss 3 a + 4 b of biases a and b of 0: norms of 3 and 4, whatever their features."""

    class Two(OwnCritic):
        def __init__(self):
            super().__init__(names=("first", "second"))
            networks = tuple(NetworkNeeds(name, lr=0.1) for name in self.names)
            self.needs = replace(self.needs, networks=networks)

        def updates(self, learning):
            first, second = (learning.networks[name].bias for name in self.names)

            def loss(rows, keys):
                return (3 * first + 4 * second).expand(len(rows)), {}

            yield learning.step(learning.sample(4), loss, trains=list(self.names))

    metrics = made(Two())[0].update(play(value_width=0), 0)
    norms = [metrics[f"train/{name}/grad_norm"] for name in ("first", "second")]
    assert norms == pytest.approx([3.0, 4.0])


def test_a_network_that_learns_nothing_ends_the_run(refused, play):
    """One of four steps is skipped, but it is the only one of the critic."""

    class Broken(OwnCritic):
        def updates(self, learning):
            def broken(rows, keys):
                features = learning.replay.inputs(rows)["features"]
                return learning.networks["value_of"](features).squeeze(1) * float("nan"), {}

            yield learning.step(learning.sample(16), broken, trains=["value_of"])
            for _ in range(3):
                yield list(super().updates(learning))[-1]

    learner, _ = made(Broken())
    with refused(TrainingError, "value_of"):
        learner.update(play(value_width=0), 0)


def test_a_target_network_follows_by_the_polyak_factor(play):
    learner, _ = made(CriticAlone())
    start = networks(learner)[WEIGHT]
    assert torch.equal(start, networks(learner, "lagged")[WEIGHT])
    learner.update(play(value_width=0), 0)
    expected = (1 - LAG) * start + LAG * networks(learner)[WEIGHT]
    torch.testing.assert_close(networks(learner, "lagged")[WEIGHT], expected)


def test_weights_depend_on_the_seed_alone():
    first, second, other = (networks(made(seed=seed)[0])[WEIGHT] for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_other_networks_than_needed_are_refused(refused):
    with refused(AlgorithmError, "['value_of']", text=False):
        made(OwnCritic(names=("value_of", "more")))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_loss_must_have_a_number_for_each_row(refused, play, shape):
    class Wrong(OwnCritic):
        def updates(self, learning):
            def loss(rows, keys):
                return torch.zeros(shape), {}

            yield learning.step(learning.sample(4), loss, trains=["policy"])

    with refused(AlgorithmError, "[4]"):
        made(Wrong())[0].update(play(value_width=0), 0)


def test_learning_rates_of_networks_are_not_scheduled(play):
    learner, _ = made()
    metrics = learner.update(play(value_width=0), 0, lr_factors={"policy": 0.5})
    assert metrics["train/actor/lr"] == 0.5e-2
    halved = networks(learner)
    learner, _ = made()
    metrics = learner.update(play(value_width=0), 0)
    assert metrics["train/actor/lr"] == 1e-2
    assert torch.equal(halved[WEIGHT], networks(learner)[WEIGHT])


def test_a_resumed_learner_equals_an_uninterrupted_one(refused, play, tmp_path):
    rollouts = [play(value_width=0, seed=seed) for seed in range(3)]
    learner, policy = made()
    for update, rollout in enumerate(rollouts[:2]):
        learner.update(rollout, update)
    saved = copy.deepcopy(learner.state_dict())
    state = learner.save_replay(tmp_path, known=())
    other, again = made()
    again.load_state_dict(policy.state_dict())
    other.load_state_dict(saved)
    other.load_replay(tmp_path, state)
    first = learner.update(rollouts[2], 2)
    second = other.update(rollouts[2], 2)
    assert first == pytest.approx(second, rel=0, abs=0, nan_ok=True)
    assert weights(learner, policy) == weights(other, again)
    del saved["tensors"]["networks.lagged.value_of.bias"]
    with refused(CheckpointError, 3, 4):
        made()[0].load_state_dict(saved)


@pytest.mark.long
def test_two_ranks_equal_one(play, tmp_path):
    """Also over a save and a load. Sums of 16 gradients in another order: 6e-8 each; Adam divides
    by the root of moments of 1e-2 and more, so 1e-5 of the weights is what they come to."""
    learner, policy = made()
    for update in range(3):
        rollout = play(value_width=0, seed=update, columns=5)
        for rank, chosen in enumerate(([0, 3], [1, 2, 4])):
            torch.save(vars(take(rollout, chosen)), tmp_path / f"{update}-{rank}.pt")
        learner.update(rollout, update)
    main = Path(own_networks.__file__)
    url = f"file://{tmp_path}/meet"
    processes = [
        subprocess.Popen([sys.executable, str(main), str(rank), "2", url, str(tmp_path)])
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=SECONDS) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert found[0]["weights"] == found[1]["weights"]
    for mine, theirs in zip(weights(learner, policy), found[0]["weights"], strict=True):
        assert theirs == pytest.approx(mine, rel=1e-4, abs=1e-5)
