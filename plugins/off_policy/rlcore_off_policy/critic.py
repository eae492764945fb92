"""Judge action chunks: an ensemble of networks over shared features, and ranges of actions.

Legend: B rows, F features, N entries of a chunk (C actions of A entries), E heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rlcore.contracts.protocols import Inputs
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_off_policy.encoder import Encoder


class Critic(nn.Module):
    """Q(s, a) of chunks, E times over: the heads differ by their first weights (REDQ, arXiv
    2101.05982), and have LayerNorm, which bounds what they make of actions never seen.

    Args:
        inputs: of one row.
        entries: N.
        heads: E.
        hidden: widths of the layers of a head.
        initial: what it expects before it has learned.
    """

    def __init__(
        self,
        inputs: Inputs,
        entries: int,
        *,
        heads: int,
        hidden: tuple[int, ...] = (256, 256),
        initial: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(inputs)
        size = self.encoder.size + entries
        self.heads = nn.ModuleList(layers(size, hidden, 1) for _ in range(heads))
        for head in self.heads:
            assert isinstance(head, nn.Sequential)
            last = head[-1]
            assert isinstance(last, nn.Linear)
            nn.init.constant_(last.bias, initial)

    def features(self, inputs: Mapping[str, Tensor], shift: Tensor | None = None) -> Tensor:
        """`[B, F]`; see :class:`Encoder`."""
        features: Tensor = self.encoder(inputs, shift)
        return features

    def values(self, features: Tensor, actions: Tensor) -> Tensor:
        """`[E, B]` of actions `[B, N]` in units of the range."""
        seen = torch.cat([features, actions], dim=1)
        return torch.stack([head(seen).squeeze(1) for head in self.heads])


class ActionRange(nn.Module):
    """The range of an env's actions; in units of it they go from -1 to 1."""

    low: Tensor
    high: Tensor

    def __init__(self, env: EnvSpec) -> None:
        super().__init__()
        for name in ("low", "high"):
            ends = [getattr(one, name) for one in env.actions for _ in range(one.size)]
            self.register_buffer(name, torch.tensor(ends, dtype=torch.float32), persistent=False)

    def units(self, actions: Tensor) -> Tensor:
        """Env's actions `[..., A]`, within the range, in units of it."""
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return ((actions - middle) / half).clamp(-1.0, 1.0)

    def of_env(self, units: Tensor) -> Tensor:
        """The reverse."""
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return middle + half * units.clamp(-1.0, 1.0)


def least_of_two(values: Tensor, keys: RowKeys) -> Tensor:
    """`[B]` of values `[E, B]`: of each row the smaller one of two heads, drawn by its key."""
    heads = len(values)
    if heads == 1:
        return values[0]
    first = torch.from_numpy(keys.integers("first_head", heads))
    other = torch.from_numpy(keys.integers("other_head", heads - 1))
    pair = torch.stack([first, (first + 1 + other) % heads]).to(values.device)
    return values.gather(0, pair).min(0).values


def layers(size: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Linear layers with LayerNorm and ReLU between them."""
    made: list[nn.Module] = []
    for width in hidden:
        made += [nn.Linear(size, width), nn.LayerNorm(width), nn.ReLU()]
        size = width
    return nn.Sequential(*made, nn.Linear(size, outputs))
