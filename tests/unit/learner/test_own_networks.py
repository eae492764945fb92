"""Steps on networks of the algorithm's own: what they train, their lagged copies, their state."""

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
from rlcore.contracts.specs import NetworkNeeds
from rlcore.rollout.columns import take

sys.path.insert(0, str(Path(__file__).parent))
import own_networks
from own_networks import LAG, OwnCritic, made, weights

SECONDS = 800.0


class CriticAlone(OwnCritic):
    def updates(self, learning):
        yield next(super().updates(learning))


class PolicyAlone(OwnCritic):
    def __init__(self):
        super().__init__(critic_steps=0)


def test_a_step_trains_what_it_names_alone(play):
    learner, policy = made(CriticAlone())
    before, network = copy.deepcopy(policy.state_dict()), learner._networks.online["value_of"]
    first = network.weight.detach().clone()
    metrics = learner.update(play(value_width=0), 0)
    assert all(torch.equal(before[name], one) for name, one in policy.state_dict().items())
    assert not torch.equal(first, network.weight)
    assert metrics["train/actor/optimizer_steps"] == 1.0
    assert {"train/value_of/loss", "train/value_of/grad_norm"} <= metrics.keys()
    # its loss passes through the critic, which stays
    learner, policy = made(PolicyAlone())
    network = copy.deepcopy(learner._networks.online["value_of"].state_dict())
    learner.update(play(value_width=0), 0)
    assert not torch.equal(before["mean.weight"], policy.mean.weight)
    now = learner._networks.online["value_of"].state_dict()
    assert all(torch.equal(network[name], one) for name, one in now.items())
    assert all(one.requires_grad for group in learner._groups.values() for one in group)


def test_settings_of_the_policys_optimizer_move_the_policy_alone(play):
    moved = []
    others = {"adam_beta1": 0.5, "adam_beta2": 0.5, "weight_decay": 0.5, "clip_grad": 1e-3}
    for settings in ({}, others):
        learner, policy = made(**settings)
        learner.update(play(value_width=0), 0)
        moved.append((policy.mean.weight, learner._networks.online["value_of"].weight))
    (policy, network), (other_policy, other_network) = moved
    assert torch.equal(network, other_network)
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


def test_a_network_that_learns_nothing_ends_the_run_whatever_else_learns(play):
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
    with pytest.raises(TrainingError, match="1 of the 1 steps of value_of"):
        learner.update(play(value_width=0), 0)


def test_a_lagged_copy_follows_by_its_share(play):
    learner, _ = made(CriticAlone())
    live, lagged = (
        held["value_of"] for held in (learner._networks.online, learner._networks.targets)
    )
    start = live.weight.detach().clone()
    assert torch.equal(start, lagged.weight) and not lagged.weight.requires_grad
    learner.update(play(value_width=0), 0)
    expected = (1 - LAG) * start + LAG * live.weight.detach()
    torch.testing.assert_close(lagged.weight, expected)


def test_weights_depend_on_the_seed_alone():
    one, other = (made(seed=3)[0]._networks.online["value_of"].weight for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, made(seed=4)[0]._networks.online["value_of"].weight)


def test_other_networks_than_needed_are_refused():
    with pytest.raises(AlgorithmError, match=r"a module for each of \['value_of'\]"):
        made(OwnCritic(names=("value_of", "more")))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_loss_must_have_a_number_for_each_row(play, shape):
    class Wrong(OwnCritic):
        def updates(self, learning):
            def loss(rows, keys):
                return torch.zeros(shape), {}

            yield learning.step(learning.sample(4), loss, trains=["policy"])

    with pytest.raises(AlgorithmError, match=r"a tensor of floats \[4\], one a row"):
        made(Wrong())[0].update(play(value_width=0), 0)


def test_its_own_rates_are_not_scheduled(play):
    learner, _ = made()
    learner.update(play(value_width=0), 0, lr_factors={"policy": 0.5})
    rates = learner._optimizer.learning_rates()
    assert rates["value_of"] == own_networks.LR and rates["policy"] == 0.5e-2


def test_it_goes_on_as_if_uninterrupted(play, tmp_path):
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
    first, second = learner.update(rollouts[2], 2), other.update(rollouts[2], 2)
    assert first == pytest.approx(second, rel=0, abs=0, nan_ok=True)
    assert weights(learner, policy) == weights(other, again)
    del saved["tensors"]["networks.lagged.value_of.bias"]
    with pytest.raises(CheckpointError, match="3 tensors of the algorithm's networks"):
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
    main, url = Path(own_networks.__file__), f"file://{tmp_path}/meet"
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
