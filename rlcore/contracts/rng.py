"""Draw random numbers keyed by what is sampled, never by where. Numpy only.

Every draw comes from a Philox counter-based generator whose key is a hash of
(root seed, stream, phase, update, task, trial, replica, decision). Equal keys give equal
numbers in any process, in any order, in any batch (DESIGN, randomness).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def generator(*key: int | str) -> np.random.Generator:
    """Make the generator of `key`; equal keys give equal streams on every machine."""
    text = "\x1f".join(str(part) for part in key).encode()
    seed = _Hash(hashlib.blake2b(text, digest_size=16))
    return np.random.Generator(np.random.Philox(seed))  # type: ignore[arg-type]  # numpy's stub


class _Hash(ISeedSequence):
    """A hash as the key of Philox. `Philox(key=...)` gives the same numbers, but asks the system
    for entropy first, which takes three times as long."""

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.frombuffer(self._digest.digest(), dtype, n_words)


@dataclass(frozen=True)
class RowKeys:
    """One key a row of a batch. A policy draws all its noise here.

    Args:
        keys: a tuple per row, e.g. (root seed, phase, update, task, trial, replica, decision).
    """

    keys: tuple[tuple[int | str, ...], ...]

    def __len__(self) -> int:
        return len(self.keys)

    def normal(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw standard normal noise float32 `[B, *shape]`."""
        return self._rows(stream, lambda g: g.standard_normal(tuple(shape), dtype=np.float32))

    def uniform(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw uniformly on [0, 1), float64 `[B, *shape]`."""
        return self._rows(stream, lambda g: g.random(tuple(shape)))

    def integers(self, stream: str, high: int) -> np.ndarray:
        """Draw integers in [0, high), int64 `[B]`."""
        return self._rows(stream, lambda g: g.integers(high))

    def beta(self, stream: str, a: float, b: float) -> np.ndarray:
        """Draw from Beta(a, b), float64 `[B]`."""
        return self._rows(stream, lambda g: g.beta(a, b))

    def _rows(self, stream: str, draw: Callable[[np.random.Generator], Any]) -> np.ndarray:
        return np.stack([np.asarray(draw(generator(stream, *key))) for key in self.keys])
