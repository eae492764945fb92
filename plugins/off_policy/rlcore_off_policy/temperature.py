"""Learn the weight of the entropy in soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905)."""

from __future__ import annotations

import math

import torch
from torch import nn


class Temperature(nn.Module):
    """The learned weight of the entropy, alpha. The parameter is its logarithm, so alpha > 0."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor([math.log(alpha)]))
