"""Critic and noise head: what they read and what they can give."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from rlcore_flow.heads import (
    CriticConfig,
    NoiseHead,
    expert_features,
    vlm_features,
)
from rlcore_weights.critic import ValueHead


def test_value_head_shapes_and_start() -> None:
    torch.manual_seed(0)
    head = ValueHead(6, (512, 256, 128))
    sizes = [tuple(value.shape) for name, value in head.named_parameters() if "weight" in name]
    assert sizes == [(512, 6), (256, 512), (128, 256), (1, 128)]
    assert head(torch.randn(3, 6)).shape == (3, 1)
    # 128 weights of N(0, .02): their std is within 4 standard errors of .02
    last = head.mlp[-1].weight
    assert last.std().item() == pytest.approx(0.02, abs=4 * 0.02 / math.sqrt(2 * 128))


def test_value_head_is_a_relu_mlp() -> None:
    # one hidden unit relu(2 x + 1) and output 3 h - 1: x = 1 -> 8, x = -1 -> -1
    head = ValueHead(1, (1,))
    for parameter, value in zip(head.parameters(), (2.0, 1.0, 3.0, -1.0), strict=True):
        torch.nn.init.constant_(parameter, value)
    assert head(torch.tensor([[1.0], [-1.0]])).flatten().tolist() == [8.0, -1.0]


def test_value_head_reads_elapsed() -> None:
    head = ValueHead(4, (8,), elapsed=True, outputs=3)
    features = torch.ones(2, 4)
    values = head(features, torch.tensor([0.0, 1.0]))
    assert values.shape == (2, 3)
    assert not torch.equal(values[0], values[1])
    # the input is 2 e - 1: halfway adds nothing
    linear, rest = head.mlp[0], head.mlp[1:]
    without = rest(features @ linear.weight[:, :4].T + linear.bias)
    torch.testing.assert_close(head(features, torch.tensor([0.5, 0.5])), without)


def test_noise_head_range() -> None:
    torch.manual_seed(0)
    head = NoiseHead(4, 2, (0.08, 0.16))
    std = head(100 * torch.randn(50, 3, 4))
    assert std.shape == (50, 3, 2)
    assert std.min() >= 0.08 - 1e-6 and std.max() <= 0.16 + 1e-6
    # features and biases 0: tanh(0) = 0, the middle of the log range, sqrt(.08 * .16)
    for layer in head.mlp:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.zeros_(layer.bias)
    middle = head(torch.zeros(1, 1, 4))
    torch.testing.assert_close(middle, torch.full((1, 1, 2), math.sqrt(0.08 * 0.16)))


def test_vlm_features() -> None:
    # 2 cameras of 2 tokens, 3 prompt tokens; token i holds i
    output = torch.arange(7.0).view(1, 7, 1)
    config = CriticConfig(after_vlm=True, num_images=1)
    # tokens 0, 1, 4, 5, 6: mean 3.2
    assert vlm_features(output, config, 2, 3).item() == pytest.approx(3.2)
    two = replace(config, num_images=2)
    assert vlm_features(output, two, 2, 3).item() == pytest.approx(3.0)
    assert vlm_features(output, replace(config, vlm_mode="last_token"), 2, 3).item() == 6.0
    assert vlm_features(output, replace(config, vlm_mode="first_token"), 2, 3).item() == 0.0


def test_expert_features() -> None:
    tokens = torch.arange(4.0).view(1, 4, 1).requires_grad_()
    assert expert_features(tokens, CriticConfig()).item() == 1.5
    assert expert_features(tokens, CriticConfig()).requires_grad
    assert not expert_features(tokens, CriticConfig(detach_input=True)).requires_grad
