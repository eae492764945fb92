"""The optimizer: schedules, groups, refused steps, state."""

import json
import math

import pytest
import torch
from torch import nn

from rlcore.config.schema import OptimConfig
from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import AdamW, NetworkNeeds
from rlcore.learner.optim import PolicyOptimizer, learning_rate_factor


def test_warmup_and_cosine_by_hand():
    constant = OptimConfig(lr_warmup_steps=4)
    assert [learning_rate_factor(constant, s) for s in (0, 1, 3, 4, 99)] == [0.25, 0.5, 1, 1, 1]
    cosine = OptimConfig(lr_scheduler="cosine", lr_warmup_steps=2, total_training_steps=10)
    # (1 + cos(pi * (s - 2) / 8)) / 2: 1 at 2, 1/2 at 6, 0 from 10 on
    assert [learning_rate_factor(cosine, s) for s in (0, 2, 6, 10, 11)] == pytest.approx(
        [0.5, 1, 0.5, 0, 0]
    )
    open_end = OptimConfig(lr_scheduler="cosine", lr_warmup_steps=2)
    assert learning_rate_factor(open_end, 6, total=10) == learning_rate_factor(cosine, 6)
    assert learning_rate_factor(open_end, 2, total=2) == 0.0  # nothing is left
    assert learning_rate_factor(open_end, 6, share=0.5) == pytest.approx(0.5)
    assert learning_rate_factor(open_end, 0, share=0.5) == 0.5  # the warm-up
    assert learning_rate_factor(cosine, 4) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def pair(**settings):
    policy, value = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    config = OptimConfig(lr=0.1, value_lr=0.01, adam_eps=1e-12, **settings)
    return policy, value, PolicyOptimizer({"policy": [policy], "value": [value]}, config)


def test_two_learning_rates():
    policy, value, optimizer = pair()
    policy.grad = torch.ones(2)
    value.grad = -torch.ones(2)
    report = optimizer.step()
    # Adam's first step is lr * sign(gradient)
    assert policy.tolist() == pytest.approx([-0.1] * 2)
    assert value.tolist() == pytest.approx([0.01] * 2)
    assert report.grad_norm == pytest.approx(2.0) and report.applied
    assert policy.grad is None and value.grad is None


def test_factors_are_on_the_schedule_of_their_group():
    policy, value, optimizer = pair(lr_warmup_steps=4)
    optimizer.lr_factors = {"policy": 3.0}
    # the first of four warm-up steps: a quarter of 0.1 and of 0.01
    assert optimizer.learning_rates() == pytest.approx({"policy": 0.075, "value": 0.0025})
    policy.grad = torch.ones(2)
    value.grad = torch.ones(2)
    optimizer.step()
    assert policy.tolist() == pytest.approx([-0.075] * 2)
    assert value.tolist() == pytest.approx([-0.0025] * 2)


def test_gradients_are_clipped_over_both_groups():
    policy, value, optimizer = pair(clip_grad=1.0, adam_beta1=0.0)
    policy.grad = torch.tensor([3.0, 0.0])
    value.grad = torch.tensor([0.0, 4.0])
    assert optimizer.step().grad_norm == pytest.approx(5.0)
    # with beta1 = 0 the first moment is the clipped gradient
    tensors = optimizer.state_dict()["tensors"]
    assert tensors["policy.0.exp_avg"].tolist() == pytest.approx([0.6, 0.0], abs=1e-5)
    assert tensors["value.0.exp_avg"].tolist() == pytest.approx([0.0, 0.8], abs=1e-5)


def with_networks(first: AdamW, second: AdamW, **settings):
    """A policy of one weight 0 and two networks of one weight 1 each, with rates of 0.1."""
    parameters = {
        "policy": nn.Parameter(torch.zeros(1)),
        "critic": nn.Parameter(torch.ones(1)),
        "edit": nn.Parameter(torch.ones(1)),
    }
    needs = [NetworkNeeds("critic", 0.1, optim=first), NetworkNeeds("edit", 0.1, optim=second)]
    groups = {name: [parameter] for name, parameter in parameters.items()}
    return parameters, PolicyOptimizer(groups, OptimConfig(lr=0.1, **settings), needs)


def test_each_network_steps_by_its_own_settings():
    parameters, optimizer = with_networks(
        AdamW(beta1=0.0, beta2=0.75, eps=3.0),
        AdamW(beta1=0.5, beta2=0.0, eps=1.0, weight_decay=0.5, clip_grad=2.0),
    )
    for _ in range(2):
        parameters["critic"].grad = torch.tensor([6.0])
        parameters["edit"].grad = torch.tensor([-8.0])
        report = optimizer.step()
        assert report.grad_norms == {"critic": 6.0, "edit": 8.0}
    # critic: both moments corrected for their start are 6 and 36, so each step is 0.1 * 6 / (6 + 3)
    assert parameters["critic"].item() == pytest.approx(1 - 2 * 0.1 * 6 / 9, rel=1e-5)
    # edit, clipped to -2: w <- w (1 - 0.1 * 0.5) + 0.1 * 2 / (2 + 1), twice
    expected = 1.0
    for _ in range(2):
        expected = expected * 0.95 + 0.2 / 3
    assert parameters["edit"].item() == pytest.approx(expected, rel=1e-5)


def test_a_network_steps_as_torchs_loop_over_tensors_does():
    """The fused kernel against AdamW, tensor by tensor; two of the tensors have no gradient in
    every other step."""
    shapes = [(7, 5), (5,), (1, 16, 3), (1,)]
    start = [torch.randn(shape, generator=torch.Generator().manual_seed(3)) for shape in shapes]
    ours = [nn.Parameter(tensor.clone()) for tensor in start]
    reference = [nn.Parameter(tensor.clone()) for tensor in start]
    settings = AdamW(beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=0.01)
    needs = [NetworkNeeds("critic", 0.01, optim=settings)]
    groups = {"policy": [nn.Parameter(torch.zeros(1))], "critic": ours}
    optimizer = PolicyOptimizer(groups, OptimConfig(), needs)
    loop = torch.optim.AdamW(
        reference, 0.01, (0.8, 0.99), eps=1e-6, weight_decay=0.01, foreach=False, fused=False
    )
    random = torch.Generator().manual_seed(4)
    for step in range(10):
        for index, (mine, other) in enumerate(zip(ours, reference, strict=True)):
            gradient = torch.randn(mine.shape, generator=random)
            left_out = step % 2 == 1 and index < 2
            mine.grad = None if left_out else gradient
            other.grad = None if left_out else gradient.clone()
        optimizer.step()
        loop.step()
    for mine, other in zip(ours, reference, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)
    # a checkpoint of the loop, as earlier versions wrote them, has the same tensors
    tensors = optimizer.state_dict()["tensors"]
    for index, other in enumerate(reference):
        for moment, value in loop.state[other].items():
            saved = tensors[f"critic.{index}.{moment}"]
            assert (saved.dtype, saved.shape) == (value.dtype, value.shape)
            torch.testing.assert_close(saved, value, rtol=1e-5, atol=1e-6)


def test_settings_of_the_policy_do_not_reach_networks():
    moved = []
    for settings in ({}, {"adam_beta1": 0.0, "adam_beta2": 0.5, "adam_eps": 1.0}):
        settings |= {"clip_grad": 0.01, "weight_decay": 0.5} if settings else {}
        parameters, optimizer = with_networks(AdamW(), AdamW(), **settings)
        for gradient in (5.0, 3.0):
            for parameter in parameters.values():
                parameter.grad = torch.tensor([gradient])
            optimizer.step()
        moved.append({name: parameter.item() for name, parameter in parameters.items()})
    first, second = moved
    assert (first["critic"], first["edit"]) == (second["critic"], second["edit"])
    assert first["policy"] != second["policy"]


def test_networks_are_clipped_apart_from_each_other_and_from_the_policy():
    """300 in one network leaves the 4.7 of the other as it is; without beta 1 the first moment is
    the clipped gradient."""
    apart = AdamW(beta1=0.0, clip_grad=10.0)
    parameters, optimizer = with_networks(apart, apart, adam_beta1=0.0, clip_grad=1.0)
    gradients = {"policy": 0.5, "critic": 300.0, "edit": 4.7}
    for name, gradient in gradients.items():
        parameters[name].grad = torch.tensor([gradient])
    report = optimizer.step()
    assert report.grad_norms == pytest.approx(gradients)
    assert report.grad_norm == pytest.approx(math.sqrt(0.5**2 + 300.0**2 + 4.7**2))
    tensors = optimizer.state_dict()["tensors"]
    clipped = {name: tensors[f"{name}.0.exp_avg"].item() for name in gradients}
    assert clipped == pytest.approx({"policy": 0.5, "critic": 10.0, "edit": 4.7}, rel=1e-5)


def test_a_gradient_of_one_network_that_is_not_finite_skips_the_whole_step():
    parameters, optimizer = with_networks(AdamW(), AdamW())
    parameters["critic"].grad = torch.tensor([math.nan])
    parameters["edit"].grad = torch.tensor([1.0])
    assert not optimizer.step().applied
    assert parameters["critic"].item() == parameters["edit"].item() == 1.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_skips_the_step(bad):
    policy, value, optimizer = pair()
    policy.grad = torch.tensor([bad, 1.0])
    value.grad = torch.ones(2)
    assert not optimizer.step().applied
    assert policy.tolist() == value.tolist() == [0.0, 0.0]
    assert not optimizer.state_dict()["tensors"]


def test_groups_count_their_own_steps():
    policy, value, optimizer = pair(lr_warmup_steps=2)
    value.grad = torch.ones(2)
    optimizer.step()
    assert policy.tolist() == [0.0, 0.0]
    # the value's warm-up is over, the policy's has not begun
    assert optimizer.learning_rates() == {"policy": 0.05, "value": 0.01}


def test_state_round_trip_is_exact_and_json_able():
    def train(parameters, optimizer, steps):
        for step in steps:
            for parameter in parameters:
                parameter.grad = torch.tensor([1.0, -2.0]) * (step + 1)
            optimizer.step()

    *parameters, optimizer = pair(lr_warmup_steps=5)
    train(parameters, optimizer, range(6))
    *others, resumed = pair(lr_warmup_steps=5)
    train(others, optimizer=resumed, steps=range(3))
    saved = resumed.state_dict()
    *again, third = pair(lr_warmup_steps=5)
    for mine, old in zip(again, others, strict=True):
        mine.data.copy_(old.data)
    third.load_state_dict({**saved, "state": json.loads(json.dumps(saved["state"]))})
    train(again, third, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(parameters, again, strict=True))


def test_small_steps_of_bf16_weights_add_up():
    """Below 1, neighbours in bf16 are 2^-8 = 0.0039 apart: a step of 0.001 is less than half of
    that, and lost, but two of them are more."""
    weight = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = PolicyOptimizer({"policy": [weight]}, OptimConfig(lr=1e-3, adam_eps=1e-12))
    seen = []
    for _ in range(4):
        weight.grad = torch.ones_like(weight)
        assert optimizer.step().applied and weight.grad is None
        seen.append(weight[0].item())
    # masters 0.999, 0.998, 0.997, 0.996
    assert seen == [1.0, 0.99609375, 0.99609375, 0.99609375]
    assert weight.dtype == torch.bfloat16
    tensors = optimizer.state_dict()["tensors"]
    assert tensors["policy.0.master"].tolist() == pytest.approx([0.996] * 2, abs=1e-6)
    assert tensors["policy.0.exp_avg"].dtype == torch.float32


def test_master_copies_are_part_of_the_state():
    def steps(weight, optimizer, count):
        for _ in range(count):
            weight.grad = torch.tensor([1.0, -2.0], dtype=torch.bfloat16)
            optimizer.step()

    def made(values):
        weight = nn.Parameter(torch.tensor(values, dtype=torch.bfloat16))
        return weight, PolicyOptimizer({"policy": [weight]}, OptimConfig(lr=1e-3))

    weight, optimizer = made([1.0, 2.0])
    steps(weight, optimizer, 1)
    again, resumed = made(weight.tolist())  # the weights alone have forgotten the first step
    resumed.load_state_dict(optimizer.state_dict())
    for one, other in ((weight, optimizer), (again, resumed)):
        steps(one, other, 1)
    assert torch.equal(weight, again) and weight[0] < 1.0
    first, second = (o.state_dict()["tensors"] for o in (optimizer, resumed))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_foreign_state_is_refused(refused):
    *_, optimizer = pair()
    state = {"steps": {"policy": 0}, "sizes": {"policy": 7}}
    with refused(CheckpointError, "'policy': 7"):
        optimizer.load_state_dict({"tensors": {}, "state": state})
    saved = optimizer.state_dict()
    saved["tensors"]["policy.0.exp_avg"] = torch.zeros(3)
    with refused(CheckpointError, "policy.0.exp_avg", "(3,)"):
        optimizer.load_state_dict(saved)
