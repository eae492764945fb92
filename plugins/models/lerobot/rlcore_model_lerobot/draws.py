"""Let torch's random functions draw from the random keys of the rows.

LeRobot's policies draw from torch's global generator: initial noise, noise of denoising steps,
diffusion times (normal, uniform, beta), tokens, latents of a VAE, dropout. Here

* a draw of a function in :data:`_DRAWS` whose first axis is the rows comes from each row's key, on
  the host: a row's decision does not depend on its batch;
* any other draw, such as dropout or the plans of TD-MPC, whose first axis is time, comes from
  torch's generator, seeded by the keys of all rows, and the state of the generator is restored
  afterwards.

Knows no policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rlcore.contracts.rng import RowKeys, generator

Draw = Callable[[RowKeys, str, Sequence[int], Sequence[Any], dict[str, Any]], np.ndarray]


@contextmanager
def drawing_from(keys: RowKeys, device: torch.device) -> Iterator[None]:
    """Make torch draw from `keys` within the block; see above.

    Args:
        keys: one key per row.
        device: device on which the block computes; its generator is restored too.
    """
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        seeds = generator("torch", *(part for key in keys.keys for part in key))
        seed = int(seeds.integers(2**63))
        # torch.manual_seed would seed the other devices too, which fork_rng does not restore
        torch.default_generator.manual_seed(seed)
        for used in devices:
            module = torch.get_device_module(used)
            index = module.current_device() if used.index is None else used.index
            module.default_generators[index].manual_seed(seed)
        with _KeyedDraws(keys):
            yield


class _KeyedDraws(TorchFunctionMode):
    """A mode in which draws whose first axis is the rows come from the rows' keys."""

    def __init__(self, keys: RowKeys) -> None:
        super().__init__()
        self._keys = keys
        self._count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        draw = _DRAWS.get(func)
        if draw is None or named.get("generator") is not None:
            return result
        assert isinstance(result, Tensor)
        if not _is_by_rows(func, result, args, named, len(self._keys)):
            return result
        stream = f"draw {self._count}"
        self._count += 1
        drawn = draw(self._keys, stream, result.shape[1:], args, named)
        with torch.no_grad():  # what was drawn is a constant
            return result.copy_(torch.from_numpy(drawn))


def _is_by_rows(
    func: Any, result: Tensor, args: Sequence[Any], named: dict[str, Any], rows: int
) -> bool:
    """Return whether the first axis of a draw is the rows; of tokens: some of each row in turn."""
    if func is not torch.multinomial:
        return result.ndim > 0 and len(result) == rows
    _, count, replacement = _multinomial_arguments(*args, **named)
    return result.ndim == 2 and len(result) % rows == 0 and (count == 1 or replacement)


def _normal(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    return keys.normal(stream, shape)


def _normal_with_moments(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    """Draw as `torch.normal(mean, std, size)`, whose moments are numbers or tensors."""
    mean, std = (
        np.asarray(named[name] if name in named else args[place])
        for place, name in enumerate(("mean", "std"))
    )
    return (mean + std * keys.normal(stream, shape)).astype(np.float32)


def _uniform(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    return keys.uniform(stream, shape)


def _integers(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    """Draw as `torch.randint([low,] high, size)`."""
    numbers = [argument for argument in args if isinstance(argument, int)]
    high = named["high"] if "high" in named else numbers.pop()
    low = named["low"] if "low" in named else (numbers.pop() if numbers else 0)
    return low + np.floor((high - low) * keys.uniform(stream, shape)).astype(np.int64)


def _multinomial(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    """Draw as `torch.multinomial`, by inversion of the cumulated weights `[B * m, categories]`."""
    weights, count, _ = _multinomial_arguments(*args, **named)
    ends = weights.detach().cpu().double().numpy().cumsum(-1)
    shares = keys.uniform(stream, (len(ends) // len(keys), count)).reshape(len(ends), count)
    total = ends[:, -1:]
    last = (ends < total).sum(-1, keepdims=True)  # a product may round up to the total
    drawn = [np.searchsorted(*row, side="right") for row in zip(ends, shares * total, strict=True)]
    return np.minimum(np.stack(drawn), last)


def _multinomial_arguments(
    input: Tensor, num_samples: int, replacement: bool = False, **_: Any
) -> tuple[Tensor, int, bool]:
    """Return the arguments of `torch.multinomial`, whichever of them are named."""
    return input, num_samples, replacement


def _dirichlet(
    keys: RowKeys, stream: str, shape: Sequence[int], args: Sequence[Any], named: dict[str, Any]
) -> np.ndarray:
    """Draw from Dirichlet distributions, concentrations `[B, ..., K]`: Beta draws by it, K = 2."""
    concentrations = args[0].detach().cpu().double().numpy()
    gammas = np.stack(
        [
            generator(stream, *key).standard_gamma(row)
            for key, row in zip(keys.keys, concentrations, strict=True)
        ]
    )
    return gammas / gammas.sum(-1, keepdims=True)


_DRAWS: dict[Any, Draw] = {
    torch.randn: _normal,
    torch.randn_like: _normal,
    torch.normal: _normal_with_moments,
    torch.rand: _uniform,
    torch.rand_like: _uniform,
    torch.randint: _integers,
    torch.multinomial: _multinomial,
    torch._sample_dirichlet: _dirichlet,
}
