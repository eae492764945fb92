"""A module with tensors of all kinds, for tests of how weights travel."""

from __future__ import annotations

import torch
from torch import nn

from rlcore.transport.layout import named_weights


class Odd(nn.Module):
    """All kinds of tensors: 2 x 3 floats, bfloat16, a scalar, an empty one, buffers of two kinds.

    Bytes: 24 + 10 + 4 + 0 + 3 + 16 = 57.
    """

    def __init__(self, fill: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3) + fill)
        self.head = nn.Parameter(torch.full((5,), fill, dtype=torch.bfloat16))
        self.scale = nn.Parameter(torch.tensor(fill), requires_grad=False)
        self.none = nn.Parameter(torch.zeros(0, 4))
        self.register_buffer("mask", torch.tensor([True, False, fill > 0]))
        self.register_buffer("count", torch.tensor([1, int(fill)]), persistent=False)

    def parameter_groups(self):
        return {"policy": [self.weight, self.none], "value": [self.head]}


def equal(a, b):
    ours = named_weights(a, "all")
    theirs = named_weights(b, "all")
    return {name: torch.equal(ours[name], theirs[name]) for name in ours}
