"""Critics of action chunks: an ensemble of Q heads over shared features, and ranges of actions.

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
from rlcore_off_policy.sizes import WIDTH


class Critic(nn.Module):
    """An ensemble of E heads that estimate Q(s, a) of chunks, over one shared encoder.

    The heads differ by their initial weights (REDQ, arXiv 2101.05982). LayerNorm in each head
    limits extrapolation to unseen actions.

    Args:
        inputs: inputs of one row, for names, shapes and dtypes.
        entries: N.
        heads: E.
        hidden: widths of the hidden layers of a head.
        initial: initial bias of the last layer, about the value before training.
        width: features of each image, and of all floats together, see :class:`Encoder`.
        scalars: whether the heads see single floats, such as the elapsed share of the time limit.
    """

    def __init__(
        self,
        inputs: Inputs,
        entries: int,
        *,
        heads: int,
        hidden: tuple[int, ...] = (256, 256),
        initial: float = 0.0,
        width: int = WIDTH,
        scalars: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(inputs, width=width, scalars=scalars)
        size = self.encoder.size + entries
        self.heads = nn.ModuleList(layers(size, hidden, 1) for _ in range(heads))
        for head in self.heads:
            assert isinstance(head, nn.Sequential)
            last = head[-1]
            assert isinstance(last, nn.Linear)
            nn.init.constant_(last.bias, initial)

    def features(self, inputs: Mapping[str, Tensor], shift: Tensor | None = None) -> Tensor:
        """Return features `[B, F]`; see :class:`Encoder`."""
        features: Tensor = self.encoder(inputs, shift)
        return features

    def values(self, features: Tensor, actions: Tensor) -> Tensor:
        """Return the values `[E, B]` of chunks `[B, N]` in units of the range."""
        inputs = torch.cat([features, actions], dim=1)
        return torch.stack([head(inputs).squeeze(1) for head in self.heads])


class ActionRange(nn.Module):
    """The range of an env's actions. In units of the range, each entry is in [-1, 1].

    Attributes:
        middle, half_width: float32 `[A]`, of the range of each entry. They are not saved with the
            weights.
    """

    middle: Tensor
    half_width: Tensor

    def __init__(self, env: EnvSpec) -> None:
        super().__init__()
        low = torch.tensor(env.action_low, dtype=torch.float32)
        high = torch.tensor(env.action_high, dtype=torch.float32)
        self.register_buffer("middle", (high + low) / 2, persistent=False)
        self.register_buffer("half_width", (high - low) / 2, persistent=False)

    def units(self, actions: Tensor) -> Tensor:
        """Convert actions of the env `[..., A]` to units of the range, clamped to [-1, 1]."""
        return ((actions - self.middle) / self.half_width).clamp(-1.0, 1.0)

    def of_env(self, units: Tensor) -> Tensor:
        """Convert units of the range `[..., A]`, clamped to [-1, 1], to actions of the env."""
        return self.middle + self.half_width * units.clamp(-1.0, 1.0)


def least_of_two(values: Tensor, keys: RowKeys) -> Tensor:
    """Return `[B]`: for each row the smaller value of two distinct heads, drawn by the row's key.

    Args:
        values: `[E, B]`. Of one or two heads there is nothing to draw.
    """
    heads = len(values)
    if heads <= 2:
        return values.min(0).values
    first = torch.from_numpy(keys.integers("first_head", heads))
    # an offset of 1 to heads - 1 makes the second head another one than the first
    offset = 1 + torch.from_numpy(keys.integers("other_head", heads - 1))
    pair = torch.stack([first, (first + offset) % heads]).to(values.device)
    return values.gather(0, pair).min(0).values


def layers(size: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Build an MLP from `size` to `outputs`: linear layers with LayerNorm and ReLU in between."""
    hidden_layers: list[nn.Module] = []
    for width in hidden:
        hidden_layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.ReLU(inplace=True)]
        size = width
    return nn.Sequential(*hidden_layers, nn.Linear(size, outputs))
