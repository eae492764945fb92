"""Networks of an algorithm that act with the policy: what they change, and where they go."""

from __future__ import annotations

import copy
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig, env_spec
from torch import nn

from rlcore.config.schema import ActorConfig, AlgorithmConfig
from rlcore.contracts.errors import AlgorithmError, CheckpointError
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import AlgorithmNeeds, NetworkNeeds, ReplayNeeds
from rlcore.learner.acting import ActingPolicy, with_acting_networks, without_acting_networks
from rlcore.learner.update import Learner
from rlcore.rollout.batch_invariance import random_observation
from rlcore.rollout.decide import decide
from rlcore.runs.acting import NETWORKS, acting_algorithm
from rlcore.transport.layout import named_weights

ENV = env_spec(ToyEnvConfig(env_type="toy"))
MODEL = ToyModelConfig(model_type="toy", num_action_chunks=2)


class Shift(nn.Module):
    """Adds a number to all actions; judges two chunks by another number."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1))
        self.register_buffer("learned", torch.zeros(1))


class Shifting:
    """Draws two chunks, takes the one that a lagged network likes better, and shifts it."""

    needs = AlgorithmNeeds(
        exact_logprobs=False,
        networks=(
            NetworkNeeds("shift", lr=0.1, acts_with="online"),
            NetworkNeeds("taste", lr=0.1, polyak=0.5, acts_with="target"),
            NetworkNeeds("more", lr=0.1),
        ),
        replay=ReplayNeeds(10**6),
    )

    def networks(self, policy, inputs):
        return {"shift": Shift(), "taste": Shift(), "more": nn.Linear(1, 1)}

    def acting_head(self, policy, env, networks):
        assert sorted(networks) == ["shift", "taste"]
        return ShiftingActs(networks)

    def updates(self, learning):
        shift = learning.networks["shift"]
        taste = learning.networks["taste"]

        def loss(rows, keys):
            return (shift.by - 1).square() + (taste.by - 1).square().expand(len(rows)), {}

        yield learning.step(learning.sample(4), loss, trains=["shift", "taste"])
        shift.learned.fill_(1)


class ShiftingActs:
    def __init__(self, networks):
        self.networks = networks

    def act(self, policy, inputs, keys, *, deterministic):
        first = policy.act(inputs, keys, deterministic=deterministic)
        if not self.networks["shift"].learned:
            return first
        again = RowKeys(tuple((*key, "again") for key in keys.keys))
        second = policy.act(inputs, again, deterministic=deterministic)
        likes = self.networks["taste"].by.item()
        better = (likes * (second.actions - first.actions)).sum((1, 2)) > 0
        chosen = np.where(better[:, None, None], second.actions, first.actions)
        return replace(first, actions=np.clip(chosen + self.networks["shift"].by.item(), -1, 1))


def made(folder=None, *, seed=0):
    torch.manual_seed(0)
    config = MODEL if folder is None else replace(MODEL, model_path=str(folder))
    from rlcore_testing.toy_policy import make

    policy = make(config, env_spec=ENV)
    return with_acting_networks(
        policy, Shifting(), ENV, algorithm_name="shifting", seed=seed, folder=folder
    )


def learner_of(policy):
    actor = ActorConfig(global_batch_size=4, micro_batch_size=4)
    return Learner(policy, Shifting(), actor, AlgorithmConfig(name="shifting"), seed=0, env=ENV)


class Encoding(ToyPolicy):
    """A toy policy that offers three features of its state."""

    def __init__(self, config, env):
        super().__init__(config, env)
        self.spec = replace(self.spec, feature_size=3)
        self.features = nn.Linear(2, 3)
        self.copies = 0

    def frozen_encoder(self):
        self.copies += 1
        return copy.deepcopy(self.features).requires_grad_(False)


class Reading(Shifting):
    needs = replace(
        Shifting.needs,
        networks=(
            *Shifting.needs.networks,
            NetworkNeeds("eyes", lr=0.0, acts_with="online", encodes=True),
        ),
    )

    def acting_head(self, policy, env, networks):
        return ShiftingActs(networks)


def reading(policy):
    return with_acting_networks(
        policy, Reading(), ENV, algorithm_name="reading", seed=0, folder=None
    )


def test_an_encoder_is_a_copy_that_no_update_changes(play):
    torch.manual_seed(0)
    policy = Encoding(MODEL, ENV)
    acting = reading(policy)
    actor = ActorConfig(global_batch_size=4, micro_batch_size=4)
    learner = Learner(acting, Reading(), actor, AlgorithmConfig(name="reading"), seed=0, env=ENV)
    assert policy.copies == 1  # a second one would take as much memory as the policy for a moment
    began = policy.features.weight.detach().clone()
    with torch.no_grad():
        policy.features.weight.add_(1.0)
    learner.update(play(value_width=0), 0)
    assert torch.equal(acting.networks["eyes"].weight, began)
    saved = learner.state_dict()["tensors"]
    assert torch.equal(saved["networks.live.eyes.weight"], began)
    assert not [name for name in saved if name.startswith("optimizer.") and "eyes" in name]
    # it is sent to those who act once, with all weights
    assert "networks.eyes.weight" not in named_weights(acting, "trained")
    assert "networks.eyes.weight" in named_weights(acting, "all")


def test_a_policy_without_features_has_no_encoder(refused):
    with refused(AlgorithmError, "reading", "toy", "feature_size"):
        reading(ToyPolicy(MODEL, ENV))


@pytest.fixture
def trained(play):
    policy = made()
    learner = learner_of(policy)
    learner.update(play(value_width=0), 0)
    return policy, learner


def act(policy, rows=range(6), forward_batch=4):
    inputs = policy.prepare(random_observation(ENV, 6))
    index = np.array(list(rows))
    keys = RowKeys(tuple(("row", int(row)) for row in index))
    chosen = {name: array[index] for name, array in inputs.items()}
    return decide(policy, chosen, keys, deterministic=False, forward_batch=forward_batch).actions


def test_before_it_learns_the_policy_is_itself():
    policy = made()
    assert np.array_equal(act(policy), act(without_acting_networks(policy)))


def test_a_policy_without_acting_networks_stays_as_it_is():
    class Silent(Shifting):
        needs = replace(Shifting.needs, networks=())

    policy = ToyPolicy(MODEL, ENV)
    assert (
        with_acting_networks(policy, Silent(), ENV, algorithm_name="silent", seed=0, folder=None)
        is policy
    )


def test_the_acting_networks_are_those_that_learn(trained):
    policy, learner = trained
    live = learner.state_dict()["tensors"]["networks.live.taste.by"]
    # AdamW's first step is its rate: 0 -> 0.1; the target network goes half of the way
    assert policy.networks["shift"].by.item() == pytest.approx(0.1)
    assert live.item() == pytest.approx(0.1)
    assert float(policy.networks["taste"].by) == pytest.approx(0.05)
    assert not np.array_equal(act(policy), act(without_acting_networks(policy)))
    # the policy keeps them while the learner is offloaded
    offloaded = list(learner.tensors())
    assert {id(t) for t in offloaded}.isdisjoint(id(p) for p in policy.parameters())
    assert any(torch.equal(tensor.detach(), live) for tensor in offloaded)


def test_a_row_decides_alike_in_any_batch(trained):
    policy, _ = trained
    whole = act(policy)
    assert np.array_equal(act(policy, [5, 0, 3]), whole[[5, 0, 3]])
    assert np.array_equal(act(policy, [1]), whole[[1]])


def test_trained_weights_include_the_acting_networks(trained):
    policy, _ = trained
    sent = named_weights(policy, "trained")
    other = made()
    assert {"networks.shift.by", "networks.shift.learned", "networks.taste.by"} <= sent.keys()
    there = named_weights(other, "trained")
    with torch.no_grad():
        for name, tensor in sent.items():
            there[name].copy_(tensor)
    assert np.array_equal(act(other), act(policy))


def test_acting_networks_are_saved_and_loaded_with_the_policy(trained, tmp_path, play):
    policy, learner = trained
    policy.save_pretrained(tmp_path)
    assert acting_algorithm(tmp_path) == "shifting"
    loaded = made(tmp_path, seed=7)
    assert np.array_equal(act(loaded), act(policy))
    # a new run begins with the saved target network, as online and as target network
    again = learner_of(loaded)
    name = "networks.live.taste.by"
    assert again.state_dict()["tensors"][name].item() == pytest.approx(0.05)
    # a resumed run continues with both
    again.load_state_dict(learner.state_dict())
    assert again.state_dict()["tensors"][name].item() == pytest.approx(0.1)
    assert float(loaded.networks["taste"].by) == pytest.approx(0.05)


def test_before_it_learns_a_policy_is_saved_alone(tmp_path):
    policy = made()
    policy.save_pretrained(tmp_path)
    assert acting_algorithm(tmp_path) is None
    assert isinstance(made(tmp_path), ActingPolicy)


def test_networks_that_only_explore_are_not_saved(tmp_path):
    class Exploring(Shifting):
        needs = replace(
            Shifting.needs,
            networks=tuple(replace(each, explores=True) for each in Shifting.needs.networks),
        )

    policy = with_acting_networks(
        made().policy, Exploring(), ENV, algorithm_name="shifting", seed=0, folder=None
    )
    policy.learned = True
    policy.save_pretrained(tmp_path)
    assert acting_algorithm(tmp_path) is None


def test_other_networks_are_refused(refused, trained, tmp_path):
    policy, _ = trained
    policy.networks["shift"].by = nn.Parameter(torch.zeros(2))
    policy.save_pretrained(tmp_path)
    with refused(CheckpointError, NETWORKS, "shifting"):
        made(tmp_path)
    (tmp_path / NETWORKS).write_bytes(b"no")
    with refused(CheckpointError, NETWORKS, text=False):
        made(tmp_path)


def test_an_acting_target_network_needs_a_polyak_factor(refused):
    shift, taste, more = Shifting.needs.networks

    class Hasty(Shifting):
        needs = replace(Shifting.needs, networks=(shift, replace(taste, polyak=None), more))

    policy = ToyPolicy(MODEL, ENV)
    with refused(AlgorithmError, "hasty", "polyak", text=False):
        with_acting_networks(policy, Hasty(), ENV, algorithm_name="hasty", seed=0, folder=None)


class Likes(nn.Module):
    """A critic that likes large actions."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.zeros(1))

    def forward(self, inputs, actions):
        assert len(inputs["state"]) == len(actions)
        return actions.sum((1, 2))


def test_the_example_of_an_acting_head_chooses():
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples/best_of.py"))
    policy = without_acting_networks(made())
    critic = Likes()
    best = example["BestOf"](3, critic)
    inputs = policy.prepare(random_observation(ENV, 6))
    keys = RowKeys(tuple(("row", row) for row in range(6)))
    plain = policy.act(inputs, keys, deterministic=False).actions
    np.testing.assert_array_equal(
        best.act(policy, inputs, keys, deterministic=False).actions, plain
    )
    critic.ready.fill_(1)
    others = [
        policy.act(inputs, RowKeys(tuple((*key, "sample", n) for key in keys.keys))).actions
        for n in (1, 2)
    ]
    drawn = np.stack([plain, *others])
    expected = drawn[drawn.sum((2, 3)).argmax(0), range(6)]
    chosen = best.act(policy, inputs, keys, deterministic=False).actions
    np.testing.assert_array_equal(chosen, expected)
    assert (chosen != plain).any()
