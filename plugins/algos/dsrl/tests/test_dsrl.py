"""DSRL's numbers by hand, and what it makes a policy do."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from internals import compose
from rlcore_algo_dsrl.dsrl import DSRL, SoftActorCritic
from rlcore_algo_dsrl.networks import LEARNED, SEEN, NoiseActor
from rlcore_algo_dsrl.settings import NOISE, DSRLConfig, needs
from rlcore_testing.conformance.trajectories import Bandit, bandit_inputs

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.learning import NStepTargets
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import AdamW, PolicySpec

ROWS = 3
KEYS = RowKeys(tuple((0, row) for row in range(ROWS)))
HALF = math.log(3.0) / 2  # tanh of it is 0.5
SMALL = {"alpha": 0.25, "alpha_lr": 0.0, "hidden": [4], "heads": 2, "gamma": 0.9}


def networks_of(config):
    """The networks of DSRL for the bandit, whose actor decides 0.5 b on average."""
    networks = DSRL(config).networks(Bandit(values=0).spec, bandit_inputs(1))
    actor, critic = networks["actor"], networks["critic"]
    with torch.no_grad():
        last = actor.layers[-1]
        last.weight.zero_()
        last.bias.copy_(torch.tensor([HALF, -30.0]))  # the std is clamped at exp(-5)
        for head, value in zip(critic.heads, (1.0, 3.0), strict=True):
            head[-1].weight.zero_()
            head[-1].bias.fill_(value)
    return networks


def acting(networks, stage):
    networks["actor"].stage.fill_(stage)
    env = None
    return DSRL(DSRLConfig(**SMALL)).acting_head(Bandit(values=0).spec, env, networks)


class Rows:
    """Rows of a replay: one that goes on, one that ended in success, one that was cut."""

    def inputs(self, rows):
        noise = torch.tensor([0.1, 0.2, 0.3])[:, None, None]
        return {"features": torch.ones(ROWS, 1), NOISE: noise}

    def n_step_targets(self, rows, *, chunks, gamma):
        assert (chunks, gamma) == (1, 1.0)  # a chunk's reward is not discounted within it
        return NStepTargets(
            torch.tensor([0.0, 1.0, 0.0]),
            torch.tensor([1.0, 0.0, 0.0]),
            torch.tensor([True, True, False]),
            torch.tensor([False, False, True]),
            torch.zeros(ROWS, 1, 1),
            {"features": torch.ones(ROWS, 1)},
        )


def losses_of(**settings):
    config = DSRLConfig(**{**SMALL, **settings})
    networks = networks_of(config)
    learning = SimpleNamespace(
        networks=networks, target_networks={"critic": networks["critic"]}, replay=Rows()
    )
    return SoftActorCritic(config, learning), networks


@pytest.mark.parametrize(("target", "ahead"), [("mean", 2.0), ("min", 1.0)])
def test_targets_by_hand(target, ahead):
    sac, _ = losses_of(target=target)
    targets, known = sac.targets(torch.arange(ROWS), KEYS)
    # -1 + 0.9 Q' where the episode goes on, 1 - 1 where it succeeded
    torch.testing.assert_close(targets, torch.tensor([-1 + 0.9 * ahead, 0.0, -1.0]))
    assert known.tolist() == [True, True, False]


def test_rewards_without_a_penalty_and_with_entropy():
    sac, networks = losses_of(step_penalty=0.0, backup_entropy=True)
    targets, _ = sac.targets(torch.arange(ROWS), KEYS)
    normal = torch.from_numpy(KEYS.normal("noise_then", (1,)))
    _, density = networks["actor"].sample(torch.ones(ROWS, 64), normal)
    expected = 0.9 * (2.0 - 0.25 * density[0].item())
    torch.testing.assert_close(targets, torch.tensor([expected, 1.0, 0.0]))


def test_the_critic_learns_from_what_was_seen():
    sac, _ = losses_of()
    losses, _ = sac.critic_loss(torch.arange(ROWS), KEYS)
    # heads 1 and 3 against targets 0.8 and 0; the row that was cut counts nothing
    first, second = (0.2**2 + 2.2**2) / 2, (1.0 + 9.0) / 2
    torch.testing.assert_close(losses, torch.tensor([first, second, 0.0]))


def test_the_actor_weighs_density_against_value():
    sac, networks = losses_of()
    losses, _ = sac.actor_loss(torch.arange(ROWS), KEYS)
    normal = torch.from_numpy(KEYS.normal("noise", (1,)))
    _, density = networks["actor"].sample(torch.ones(ROWS, 64), normal)
    torch.testing.assert_close(losses, 0.25 * density - 2.0)
    assert sac.trained_with_actor == ["actor"]


def test_the_density_of_noise_by_hand():
    actor = NoiseActor(1, 1, (1, 1), bound=2.0, hidden=())
    with torch.no_grad():
        actor.layers[-1].weight.zero_()
        actor.layers[-1].bias.copy_(torch.tensor([HALF, 0.0]))
    noise, density = actor.sample(torch.ones(1, 1), torch.zeros(1, 1))
    # N(0; 0, 1) / (b (1 - 0.5^2)) at 2 * 0.5
    assert noise.item() == pytest.approx(1.0)
    assert density.item() == pytest.approx(-0.5 * math.log(2 * math.pi) - math.log(2 * 0.75))


def test_the_last_decided_row_is_repeated():
    actor = NoiseActor(1, 2, (4, 3), bound=1.0, hidden=())
    own = torch.arange(12.0).reshape(2, 6)
    noise = actor.unrolled(own)
    assert noise[0].tolist() == [[0, 1, 2], [3, 4, 5], [3, 4, 5], [3, 4, 5]]
    again, steered = actor.decided(noise)
    assert torch.equal(again, own) and steered.tolist() == [True, True]
    noise[1, 3, 0] += 1
    assert actor.decided(noise)[1].tolist() == [True, False]


def test_without_exploration_the_policy_starts_from_the_actors_mean():
    networks = networks_of(DSRLConfig(**SMALL, bound=1.5))
    bandit, inputs = Bandit(values=0), bandit_inputs(ROWS)
    output = acting(networks, LEARNED).act(bandit, inputs, KEYS, deterministic=True)
    with torch.no_grad():
        mean = networks["actor"].mean(
            networks["critic"].features({"features": torch.ones(ROWS, 1)})
        )
    alone = bandit.act(inputs, KEYS, deterministic=True, noise=mean.reshape(ROWS, 1, 1).numpy())
    assert np.array_equal(output.actions, alone.actions)
    assert np.array_equal(output.replay[NOISE].numpy(), alone.actions)  # the bandit's mean is 0
    assert output.actions[0, 0, 0] == pytest.approx(0.75)


@pytest.mark.parametrize("stage", [SEEN, LEARNED])
def test_exploring_is_by_the_noise_alone(stage):
    networks = networks_of(DSRLConfig(**SMALL))
    bandit, inputs = Bandit(values=0), bandit_inputs(ROWS)
    output = acting(networks, stage).act(bandit, inputs, KEYS, deterministic=False)
    assert not output.logprobs.any()
    assert len(set(output.actions.flatten().tolist())) == ROWS
    if stage == SEEN:
        assert np.array_equal(output.actions, KEYS.normal("initial", (1, 1)))


def test_settings_that_contradict_each_other_are_refused(refused):
    with refused(ConfigError, "algorithm.alpha"):
        needs(DSRLConfig(alpha=0.0))
    spec = PolicySpec("flow", 0, 1, 1, 1, 1, noise_shape=(4, 2))
    with refused(ConfigError, "noise_rows", "4"):
        DSRL(DSRLConfig(noise_rows=5)).networks(spec, bandit_inputs(1))


def test_each_network_has_its_own_optimizer():
    config = DSRLConfig()
    config.actor_optim.adam_eps = 1e-5
    config.alpha_optim.clip_grad = 2.0
    found = {network.name: (network.lr, network.optim) for network in needs(config).networks}
    assert found == {
        "actor": (1e-4, AdamW(eps=1e-5)),
        "critic": (3e-4, AdamW(0.9, 0.999, 1e-8, 0.0, None)),
        "temperature": (3e-4, AdamW(clip_grad=2.0)),
    }


def test_presets_take_the_optimizers_of_their_sources():
    def optimizers(preset):
        config = compose(["env=toy", "model=pi0_tiny", f"algorithm={preset}"]).algorithm
        return {network.name: network.optim for network in needs(config).networks}

    plain = AdamW()
    assert optimizers("dsrl_pi0") == {"actor": plain, "critic": plain, "temperature": plain}
    ten = AdamW(clip_grad=10.0)
    actor = AdamW(beta2=0.96, eps=1e-5, clip_grad=3.5)
    assert optimizers("dsrl_rlinf") == {"actor": actor, "critic": ten, "temperature": ten}
    one = AdamW(clip_grad=1.0)
    assert optimizers("dsrl_verl_vla") == {"actor": one, "critic": one}
