"""Losses and metrics against numbers worked by hand and loops over elements."""

import itertools
import math

import pytest
import torch
from rlcore_policy_gradient.loss import entropy_mean, kl_to_reference, policy_loss, value_loss

from rlcore.contracts.metric import Metrics, explained_variance


def ratios(*values):
    """Log-probs `[B, 1, 1]` whose ratio to old log-probs of 0 is this."""
    return torch.tensor(values, dtype=torch.float64).log()[:, None, None]


def clipped(new, advantages, *, weights=None, clip_c=None, clip_log=None):
    advantages = torch.tensor(advantages, dtype=torch.float64)[:, None, None]
    weights = torch.ones_like(new) if weights is None else weights
    loss, metrics = policy_loss(
        logprobs=new,
        old_logprobs=torch.zeros_like(new),
        advantages=advantages,
        weights=weights,
        clip_ratio_low=0.2,
        clip_ratio_high=0.25,
        clip_ratio_c=clip_c,
        clip_log_ratio=clip_log,
    )
    return float(loss), {name: part.value(1) for name, part in metrics.items()}


@pytest.mark.parametrize(
    "ratio, advantage, expected",
    [
        (1.5, 2.0, -2.5),  # max(-3, -2 * 1.25): the upper bound holds a good action back
        (1.5, -2.0, 3.0),  # max(3, 2 * 1.25): no bound on what makes a bad action likelier
        (0.5, 2.0, -1.0),  # max(-1, -2 * 0.8)
        (0.5, -2.0, 1.6),  # max(1, 2 * 0.8): the lower bound
        (1.1, 2.0, -2.2),  # inside the bounds
    ],
)
def test_clipping_is_asymmetric(ratio, advantage, expected):
    assert clipped(ratios(ratio), [advantage])[0] == pytest.approx(expected)


def test_dual_clip_binds_for_negative_advantages_only():
    # A = -1, rho = 5: max(5, 1.25) = 5, held to 3 * |A| = 3;  A = 1: -1.25 either way
    loss, metrics = clipped(ratios(5.0, 5.0), [-1.0, 1.0], clip_c=3.0)
    assert loss == pytest.approx(3.0 - 1.25)
    assert metrics["train/actor/dual_clip_fraction"] == 0.5


def test_log_ratio_is_clamped_before_exp():
    # log ratio 10 clamped to 1, A = -1: loss e
    assert clipped(ratios(math.exp(10)), [-1.0], clip_log=1.0)[0] == pytest.approx(math.e)


def test_an_outlier_is_counted_and_moves_nothing():
    """A log ratio of 100 would be an infinite ratio in float32, and the step would be lost."""
    new = torch.tensor([100.0, -100.0, 0.0])[:, None, None].requires_grad_()
    loss, metrics = policy_loss(
        logprobs=new,
        old_logprobs=torch.zeros(3, 1, 1),
        advantages=torch.tensor([-1.0, -1.0, 1.0])[:, None, None],
        weights=torch.ones(3, 1, 1),
        clip_ratio_low=0.2,
        clip_ratio_high=0.2,
    )
    # e^20 for the bad action made likelier, 0.8 for the other (clipped), -1 for the good one
    assert loss.item() == pytest.approx(math.exp(20) + 0.8 - 1.0, rel=1e-6)
    loss.backward()
    assert new.grad is not None and new.grad.flatten().tolist() == [0.0, 0.0, -1.0]
    numbers = {name: part.value(1) for name, part in metrics.items()}
    assert numbers["train/actor/clamped_log_ratios"] == 2
    # (e^20 - 1 - 20 + 100 - 1 + 0) / 3: a drift of the policy shows, and is a number
    assert numbers["train/actor/approx_kl"] == pytest.approx((math.exp(20) + 78) / 3, rel=1e-6)


def test_an_outlier_against_the_reference_is_counted():
    new = torch.tensor([-100.0, 30.0])[:, None, None].requires_grad_()
    loss, metrics = kl_to_reference(
        logprobs=new, reference_logprobs=torch.zeros(2, 1, 1), weights=torch.ones(2, 1, 1)
    )
    # x = 100, held to 20: e^20 - 21; x = -30: e^-30 + 29
    assert loss.item() == pytest.approx(math.exp(20) - 21 + 29, rel=1e-6)
    loss.backward()
    assert new.grad is not None and new.grad.flatten().tolist() == pytest.approx([0.0, 1.0])
    assert metrics["train/actor/clamped_kl_reference"].value(1) == 1


def test_policy_metrics_by_hand():
    # ratios 1.5 and 0.5 with A = 1: the first is clipped to 1.25 and by it the loss changes,
    # the second is clipped to 0.8 but -0.5 > -0.8 is what counts
    _, metrics = clipped(ratios(1.5, 0.5), [1.0, 1.0])
    assert metrics["train/actor/ratio"] == pytest.approx(1.0)
    assert metrics["train/actor/ratio_max"] == pytest.approx(1.5)
    assert metrics["train/actor/clipped_ratio"] == pytest.approx((1.25 + 0.8) / 2)
    assert metrics["train/actor/clip_fraction"] == 0.5
    # k3: mean of rho - 1 - log rho
    kl = (0.5 - math.log(1.5) + -0.5 - math.log(0.5)) / 2
    assert metrics["train/actor/approx_kl"] == pytest.approx(kl)
    # k1: mean of log old - log new = -(log 1.5 + log 0.5) / 2 = 0.143841
    assert metrics["train/actor/approx_kl_k1"] == pytest.approx(0.143841, abs=1e-6)


def test_k1_may_be_negative_and_leaves_out_what_is_invalid():
    new = torch.tensor([[0.3, 0.1], [9.0, -0.1]])[:, None, :]
    _, metrics = policy_loss(
        logprobs=new,
        old_logprobs=torch.zeros(2, 1, 2),
        advantages=torch.ones(2, 1, 1),
        weights=torch.tensor([[0.5, 0.5], [0.0, 0.5]])[:, None, :],
        clip_ratio_low=0.2,
        clip_ratio_high=0.2,
    )
    # -(0.3 + 0.1 - 0.1) / 3
    assert metrics["train/actor/approx_kl_k1"].value(1) == pytest.approx(-0.1)
    assert metrics["train/actor/approx_kl"].value(1) > 0


@pytest.mark.parametrize("width, dual", list(itertools.product((1, 3), (None, 2.0))))
def test_policy_loss_against_a_loop(width, dual):
    random = torch.Generator().manual_seed(width)
    new, old = (torch.randn(40, width, 2, generator=random) for _ in range(2))
    advantages = torch.randn(40, width, 1, generator=random)
    weights = torch.rand(40, width, 2, generator=random)
    weights[torch.rand(weights.shape, generator=random) < 0.3] = 0
    new = torch.where(weights > 0, new, torch.nan)  # invalid elements may hold anything
    loss, metrics = policy_loss(
        logprobs=new,
        old_logprobs=old,
        advantages=advantages,
        weights=weights,
        clip_ratio_low=0.2,
        clip_ratio_high=0.28,
        clip_ratio_c=dual,
        clip_log_ratio=1.5,
    )
    total, count, bounded, duals, kl, kept = 0.0, 0, 0, 0, 0.0, 0.0
    for b, e, f in itertools.product(range(40), range(width), range(2)):
        if weights[b, e, f] == 0:
            continue
        log = float(new[b, e, f] - old[b, e, f])
        rho, a = math.exp(max(-1.5, min(1.5, log))), float(advantages[b, e, 0])
        clip = max(0.8, min(1.28, rho))
        element = max(-a * rho, -a * clip)
        bounded += -a * clip > -a * rho
        if dual and a < 0 and element > -dual * a:
            element, duals = -dual * a, duals + 1
        total += float(weights[b, e, f]) * element
        kl += math.exp(log) - 1 - log
        kept, count = kept + clip, count + 1
    numbers = {name: part.value(1) for name, part in metrics.items()}
    assert 0 < bounded < count
    assert float(loss) == pytest.approx(total, rel=1e-4)
    assert numbers["train/actor/policy_loss"] == pytest.approx(total, rel=1e-4)
    assert numbers["train/actor/clip_fraction"] == pytest.approx(bounded / count)
    assert numbers["train/actor/dual_clip_fraction"] == pytest.approx(duals / count)
    assert numbers["train/actor/clipped_ratio"] == pytest.approx(kept / count, rel=1e-5)
    assert numbers["train/actor/approx_kl"] == pytest.approx(kl / count, rel=1e-4)


def test_invalid_elements_have_no_gradient():
    new = torch.tensor([0.1, float("nan")])[:, None, None].requires_grad_()
    loss, _ = policy_loss(
        logprobs=new,
        old_logprobs=torch.zeros(2, 1, 1),
        advantages=torch.ones(2, 1, 1),
        weights=torch.tensor([1.0, 0.0])[:, None, None],
        clip_ratio_low=0.2,
        clip_ratio_high=0.2,
    )
    loss.backward()
    assert new.grad.flatten().tolist() == pytest.approx([-math.exp(0.1), 0.0])


def critic(values, old, returns, *, clip=0.5, delta=2.0, weights=None):
    new, old, returns = (torch.tensor(x)[:, None].double() for x in (values, old, returns))
    weights = torch.ones_like(new) if weights is None else torch.tensor(weights)[:, None]
    loss, metrics = value_loss(
        values=new,
        old_values=old,
        returns=returns,
        weights=weights,
        value_clip=clip,
        huber_delta=delta,
    )
    return float(loss), {name: part.value(1) for name, part in metrics.items()}


@pytest.mark.parametrize(
    "value, old, target, expected",
    [
        (1.0, 1.0, 2.0, 0.5),  # h(1) = 1/2
        (1.0, 1.0, 5.0, 6.0),  # h(4) = 2 * (4 - 1)
        (2.0, 1.0, 2.0, 0.125),  # h(0) = 0 against clipped to 1.5: h(0.5) = 1/8
        (0.0, 1.0, 2.0, 2.0),  # |e| = 2 is on the linear side: 2 * (2 - 1); clipped: h(1.5) = 1.125
    ],
)
def test_value_loss_by_hand(value, old, target, expected):
    assert critic([value], [old], [target])[0] == pytest.approx(expected)


def test_value_loss_switches():
    assert critic([2.0], [1.0], [2.0], clip=None)[0] == 0.0
    assert critic([1.0], [1.0], [5.0], delta=None)[0] == pytest.approx(8.0)  # 4^2 / 2


def test_value_metrics_by_hand():
    # |V - V_old| = 0.4, 0.6, 2, (invalid): two of three beyond 0.5
    _, metrics = critic(
        [0.4, 0.6, 2.0, 9.0], [0.0] * 4, [1.0, 2.0, 3.0, 9.0], weights=[1.0, 1.0, 1.0, 0.0]
    )
    assert metrics["train/critic/value_clip_ratio"] == pytest.approx(2 / 3)
    # errors 0.6, 1.4, 1: mean 1, variance (0.16 + 0.16 + 0) / 3; Var(R) = 2 / 3
    assert metrics["train/critic/explained_variance"] == pytest.approx(1 - 0.32 / 2)


def test_explained_variance_adds_up_over_parts():
    random = torch.Generator().manual_seed(0)
    values, returns = (torch.randn(100, generator=random) * 3 + 10 for _ in range(2))
    everywhere = torch.ones(100, dtype=torch.bool)
    parts = [
        explained_variance(values[p], returns[p], everywhere[p])
        for p in (slice(0, 7), slice(7, 60), slice(60, 100))
    ]
    expected = 1 - (returns - values).var() / returns.var()
    assert (parts[0] + parts[1] + parts[2]).value(1) == pytest.approx(float(expected), rel=1e-5)


def test_explained_variance_of_equal_returns_is_undefined():
    part = explained_variance(torch.arange(3.0), torch.full((3,), 0.1), torch.ones(3).bool())
    assert math.isnan(part.value(1))


def test_entropy_is_a_weighted_sum():
    entropy = torch.tensor([1.0, 2.0, float("nan")])[:, None, None]
    weights = torch.tensor([0.25, 0.75, 0.0])[:, None, None]
    assert float(entropy_mean(entropy=entropy, weights=weights)[0]) == 1.75


def test_kl_to_reference_by_hand():
    # x = log ref - log pi = log 2 and -log 2:  2 - log 2 - 1  and  1/2 + log 2 - 1
    reference = torch.tensor([2.0, 0.5]).log()[:, None, None]
    loss, metrics = kl_to_reference(
        logprobs=torch.zeros(2, 1, 1),
        reference_logprobs=reference,
        weights=torch.full((2, 1, 1), 0.5),
    )
    assert float(loss) == pytest.approx(0.25)  # (1 - log 2 + log 2 - 1/2) / 2
    assert metrics["train/actor/kl_reference"].value(1) == pytest.approx(0.25)


def test_metrics_reduce_over_elements_not_over_parts():
    metrics = Metrics()
    for new, advantages in ((ratios(1.5), [1.0]), (ratios(1.0, 1.0, 1.0), [1.0] * 3)):
        metrics.add(
            policy_loss(
                logprobs=new,
                old_logprobs=torch.zeros_like(new),
                weights=torch.ones_like(new),
                advantages=torch.tensor(advantages)[:, None, None],
                clip_ratio_low=0.2,
                clip_ratio_high=0.25,
            )[1]
        )
    numbers = metrics.values(optimizer_steps=2)
    assert numbers["train/actor/clip_fraction"] == 0.25  # one of four, not the mean of 1 and 0
    assert numbers["train/actor/ratio_max"] == pytest.approx(1.5)
    # a loss is summed over micro-batches and averaged over optimizer steps
    assert numbers["train/actor/policy_loss"] == pytest.approx((-1.25 - 3) / 2)


def test_nothing_counted_is_nan():
    _, metrics = clipped(ratios(1.5), [1.0], weights=torch.zeros(1, 1, 1))
    assert math.isnan(metrics["train/actor/clip_fraction"])
