"""Draw random numbers whose key names what is sampled, not the process that samples it.

Every draw comes from a Philox counter-based generator whose key is a hash of
(stream, root seed, phase, update, task, trial, replica, decision). Equal keys give equal numbers in
any process, in any order and in any batch (see docs/design.md). Uses only numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def generator(*key: int | str) -> np.random.Generator:
    """Return a new generator seeded by `key`; equal keys give equal streams on every machine."""
    text = "\x1f".join(str(part) for part in key).encode()
    seed = _Hash(hashlib.blake2b(text, digest_size=16))
    return np.random.Generator(np.random.Philox(seed))  # type: ignore[arg-type]  # numpy's stub


class _Hash(ISeedSequence):
    """A seed sequence that returns a 128-bit hash as the key of Philox.

    `Philox(key=...)` gives the same numbers, but takes three times as long, because it first asks
    the system for entropy.
    """

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.frombuffer(self._digest.digest(), dtype, n_words)


@dataclass(frozen=True)
class RowKeys:
    """The keys of B rows, from which a policy draws all its noise.

    A method called again with the same stream returns the same numbers.

    Args:
        keys: one tuple per row, e.g. (root seed, phase, update, task, trial, replica, decision).
    """

    keys: tuple[tuple[int | str, ...], ...]

    def __len__(self) -> int:
        return len(self.keys)

    def normal(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw standard normal noise float32 `[B, *shape]`."""
        return self._rows(stream, lambda g: g.standard_normal(tuple(shape), dtype=np.float32))

    def uniform(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw from the uniform distribution on [0, 1), float64 `[B, *shape]`."""
        return self._rows(stream, lambda g: g.random(tuple(shape)))

    def integers(self, stream: str, high: int) -> np.ndarray:
        """Draw one integer in [0, high) for each row, int64 `[B]`."""
        return self._rows(stream, lambda g: g.integers(high))

    def beta(self, stream: str, a: float, b: float) -> np.ndarray:
        """Draw one number from Beta(a, b) for each row, float64 `[B]`."""
        return self._rows(stream, lambda g: g.beta(a, b))

    def _rows(self, stream: str, draw: Callable[[np.random.Generator], Any]) -> np.ndarray:
        return np.stack([np.asarray(draw(generator(stream, *key))) for key in self.keys])
