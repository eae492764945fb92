"""Parts of a layer against plain torch, to the bit."""

from __future__ import annotations

import pytest
import torch
from rlcore_flow.attention import rotation
from torch import Tensor


def plain(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn x by torch's operations, whose gradients torch derives."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_a_rotation_and_its_gradient_equal_those_of_plain_torch(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    rotate = rotation(torch.arange(10).expand(3, -1), 8, dtype)
    # [B, Q, N, d] -> [B, N, Q, d], as heads are split
    x = torch.randn(3, 10, 4, 8, generator=generator).to(dtype).transpose(1, 2)
    gradient = torch.randn(3, 4, 10, 8, generator=generator).to(dtype)
    results = []
    for turn in (rotate, lambda y: plain(y, rotate.cos, rotate.sin)):
        leaf = x.clone().requires_grad_()
        turned = turn(leaf)
        (received,) = torch.autograd.grad(turned, leaf, gradient)
        results.append((turned, received))
    (ours, our_gradient), (expected, expected_gradient) = results
    assert torch.equal(ours, expected)
    assert torch.equal(our_gradient, expected_gradient)
    assert our_gradient.abs().sum() > 0
