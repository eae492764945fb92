"""SAC's targets and losses by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from rlcore_algo_sac.sac import SAC, Losses
from rlcore_algo_sac.settings import SACConfig, needs
from rlcore_testing.conformance.fake_env import fake_env
from rlcore_testing.conformance.trajectories import Bandit, bandit_inputs

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.learning import NStepTargets
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import PolicySpec

ROWS = 3
KEYS = RowKeys(tuple((0, row) for row in range(ROWS)))
ALL = torch.arange(ROWS)
NONE = ALL[:0]
SMALL = {"alpha": 0.25, "alpha_lr": 0.0, "hidden": [4], "critics": 2, "gamma": 0.9}
LOGPROBS = -0.5 * torch.from_numpy(KEYS.normal("initial", (1, 1))).flatten().square()
"""The bandit's log-probs of what it samples: its mean is 0."""


class Rows:
    """Rows of a replay: one that goes on, one that ended in success, one that a time limit cut."""

    def count(self, kind=None):
        return ROWS

    def inputs(self, rows):
        return {"features": torch.ones(len(rows), 1)}

    def actions(self, rows):
        return torch.zeros(len(rows), 1, 1)

    def action_targets(self, rows):
        return torch.full((len(rows), 1, 1), 0.5), torch.ones(len(rows), 1, dtype=torch.bool)

    def n_step_targets(self, rows, *, chunks, gamma):
        assert (chunks, gamma) == (1, pytest.approx(0.9))
        return NStepTargets(
            torch.tensor([0.0, 1.0, 0.0]),
            torch.tensor([0.9, 0.0, 0.0]),
            torch.tensor([True, True, False]),
            torch.tensor([False, False, True]),
            torch.zeros(ROWS, 1, 1),
            self.inputs(rows),
        )


def learning_of(**settings):
    """Learning of the bandit; the critics value everything at 1 and 3."""
    bandit = Bandit(values=0)
    networks = SAC(SACConfig(**{**SMALL, "alpha_lr": settings.get("alpha_lr", 0.0)})).networks(
        bandit.spec, bandit_inputs(1)
    )
    with torch.no_grad():
        for head, value in zip(networks["critic"].heads, (1.0, 3.0), strict=True):
            head[-1].weight.zero_()
            head[-1].bias.fill_(value)
    return SimpleNamespace(
        policy=bandit,
        env=fake_env(action=1),
        networks=networks,
        target_networks={"critic": networks["critic"]},
        replay=Rows(),
        statistics={},
        sample=lambda count, kind: torch.arange(count),
        step=lambda rows, loss, trains: trains,
    )


def losses_of(**settings):
    return Losses(SACConfig(**{**SMALL, **settings}), learning_of(**settings))


def test_the_critics_learn_alone_in_the_first_two_updates():
    learning = learning_of()
    trained = []
    for learning.update in range(4):
        steps = SAC(SACConfig(steps=2, batch_size=4)).updates(learning)
        trained.append([name for trains in steps for name in trains])
    assert trained == [["critic"] * 2] * 2 + [["critic", "critic", "policy"]] * 2


def test_targets_take_the_smaller_of_two_critics():
    targets, valid = losses_of().targets(ALL, KEYS)
    # 0 + 0.9 min(1, 3) where the episode goes on, 1 where it succeeded
    torch.testing.assert_close(targets, torch.tensor([0.9, 1.0, 0.0]))
    assert valid.tolist() == [True, True, False]


def test_targets_with_entropy():
    targets, _ = losses_of(backup_entropy=True).targets(ALL, KEYS)
    torch.testing.assert_close(targets[0], 0.9 * (1.0 - 0.25 * LOGPROBS[0]))
    assert targets[1:].tolist() == [1.0, 0.0]


def test_critics_learn_from_what_was_seen():
    losses, _ = losses_of().critic(NONE, ALL, KEYS)
    # 1 and 3 against 0.9 and 1; the row that the time limit cut counts nothing
    torch.testing.assert_close(losses, torch.tensor([0.1**2 + 2.1**2, 4.0, 0.0]))


def test_a_time_limit_may_count_as_an_end():
    losses, _ = losses_of(time_limits="end").critic(NONE, ALL, KEYS)
    assert losses[2].item() == pytest.approx(1.0 + 9.0)  # against 0


def test_the_policy_weighs_density_against_the_mean_value():
    losses, _ = losses_of().policy(NONE, ALL, KEYS)
    torch.testing.assert_close(losses, 0.25 * LOGPROBS - 2.0)


def test_a_learned_temperature_has_its_loss_beside_the_policys():
    sac = losses_of(alpha_lr=1e-3)
    losses, _ = sac.policy(NONE, ALL, KEYS)
    # -log(alpha) (log pi + target), the target being -1/2 of the one entry
    expected = 0.25 * LOGPROBS - 2.0 - math.log(0.25) * (LOGPROBS - 0.5)
    torch.testing.assert_close(losses, expected)
    assert sac.trained_with_policy == ["policy", "temperature"]
    fixed, _ = losses_of(alpha_lr=1e-3, target_entropy=2.0).policy(NONE, ALL, KEYS)
    torch.testing.assert_close(fixed - losses, torch.full((ROWS,), -math.log(0.25) * 2.5))


def test_imitation_is_of_demonstrations_alone():
    losses, metrics = losses_of(imitation_coefficient=2.0).policy(ALL[1:2], ALL, KEYS)
    # the bandit's error is (0.5 - 0)^2
    expected = 0.25 * LOGPROBS - 2.0 + 2.0 * 0.25 * torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(losses, expected)
    assert "train/actor/imitation" in metrics
    # the micro-batch has none of the batch's demonstrations, which are rows 7 and 8
    without, _ = losses_of(imitation_coefficient=2.0).policy(torch.tensor([7, 8]), ALL, KEYS)
    torch.testing.assert_close(without, 0.25 * LOGPROBS - 2.0)
    assert "train/actor/imitation" not in losses_of().policy(ALL[1:2], ALL, KEYS)[1]


def test_what_it_cannot_train_is_refused(refused):
    with refused(ConfigError, "algorithm.alpha"):
        needs(SACConfig(alpha=0.0))
    with refused(ConfigError, "time_limits", "elapsed"):
        SAC(SACConfig(time_limits="end")).networks(Bandit().spec, bandit_inputs(1))
    refusal = needs(SACConfig()).refusal(PolicySpec("flow", 0, 1, 1, 1, 1)) or ""
    assert "flow" in refusal and "model=gaussian" in refusal and "algorithm=expo" in refusal
    assert needs(SACConfig()).refusal(Bandit().spec) is None


def test_it_asks_for_demonstrations_where_it_has_a_share_of_them():
    assert needs(SACConfig()).demonstrations and not needs(SACConfig()).imitation
    assert needs(SACConfig(imitation_coefficient=0.1)).imitation
    without = needs(SACConfig(demonstrations=0.0, imitation_coefficient=0.1))
    assert not without.demonstrations and not without.imitation
