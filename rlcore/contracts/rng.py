"""Draw random numbers whose key names what is sampled, not the process that samples it.

Every draw comes from a Philox counter-based generator whose key is a hash of
(stream, root seed, phase, update, task, trial, replica, decision). Equal keys give equal numbers in
any process, in any order and in any batch (see docs/design.md). Uses only numpy.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def generator(*key: int | str) -> np.random.Generator:
    """Return a new generator seeded by `key`; equal keys give equal streams on every machine."""
    seed = _Hash(_hash(_text(key)))
    return np.random.Generator(np.random.Philox(seed))  # type: ignore[arg-type]  # numpy's stub


def _text(key: Sequence[int | str]) -> bytes:
    """Join the parts of a key with a separator, so that ("1", "23") differs from ("12", "3")."""
    return "\x1f".join(map(str, key)).encode()


def _hash(text: bytes) -> hashlib.blake2b:
    """Return the 128-bit hash of a key's text."""
    return hashlib.blake2b(text, digest_size=16)


class _Hash(ISeedSequence):
    """A seed sequence that returns a 128-bit hash as the key of Philox.

    `Philox(key=...)` gives the same numbers, but takes three times as long, because it first asks
    the system for entropy.
    """

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.frombuffer(self._digest.digest(), dtype, n_words)


class DecisionKey(NamedTuple):
    """The key of a decision that a rollout worker asks for.

    Attributes:
        seed: root seed.
        phase: "train" for training episodes; another word for evaluations.
        update: number of updates done before the rollout.
        task, trial, replica: address of the episode.
        decision: number of the decision within its episode, from 0.
    """

    seed: int
    phase: str
    update: int
    task: int
    trial: int
    replica: int
    decision: int


@dataclass(frozen=True)
class RowKeys:
    """The keys of B rows, from which a policy draws all its noise.

    A method called again with the same stream returns the same numbers.

    Args:
        keys: one tuple per row; that of a decision in a rollout is a :class:`DecisionKey`.
        tasks: names of the tasks of the env that is played, which `DecisionKey.task` numbers; no
            part of the keys. Empty: not known.
    """

    keys: tuple[tuple[int | str, ...], ...]
    tasks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def normal(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw standard normal noise float32 `[B, *shape]`."""
        drawn = np.empty((len(self), *shape), np.float32)
        rows = drawn.reshape(len(self), math.prod(shape))
        # drawing into a row takes half of the time of drawing an array and copying it
        for row, random in zip(rows, self._generators(stream), strict=True):
            random.standard_normal(dtype=np.float32, out=row)
        return drawn

    def uniform(self, stream: str, shape: Sequence[int]) -> np.ndarray:
        """Draw from the uniform distribution on [0, 1), float64 `[B, *shape]`."""
        drawn = np.empty((len(self), *shape))
        rows = drawn.reshape(len(self), math.prod(shape))
        for row, random in zip(rows, self._generators(stream), strict=True):
            random.random(out=row)
        return drawn

    def integers(self, stream: str, high: int) -> np.ndarray:
        """Draw one integer in [0, high) for each row, int64 `[B]`."""
        return self._fill(np.empty(len(self), np.int64), stream, lambda g: g.integers(high))

    def beta(self, stream: str, a: float, b: float) -> np.ndarray:
        """Draw one number from Beta(a, b) for each row, float64 `[B]`."""
        return self._fill(np.empty(len(self)), stream, lambda g: g.beta(a, b))

    def _fill(
        self, drawn: np.ndarray, stream: str, draw: Callable[[np.random.Generator], Any]
    ) -> np.ndarray:
        """Fill `drawn` with what `draw` returns for the generator of each row, and return it."""
        for row, random in enumerate(self._generators(stream)):
            drawn[row] = draw(random)
        return drawn

    def _generators(self, stream: str) -> Iterator[np.random.Generator]:
        """Yield `generator(stream, *key)` for each row: one object, set to each row's key in turn.

        Building a generator takes six times as long as setting the state of an existing one.
        """
        random = generator(stream)
        bits = random.bit_generator
        prefix = stream.encode()
        counter_and_key: dict[str, tuple[int, ...]] = {"counter": (0, 0, 0, 0)}
        # the state of a new Philox generator: nothing drawn, nothing buffered
        state = {
            "bit_generator": "Philox",
            "state": counter_and_key,
            "buffer": (0, 0, 0, 0),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        for text in self._texts:
            counter_and_key["key"] = struct.unpack("=2Q", _hash(prefix + text).digest())
            bits.state = state
            yield random

    @cached_property
    def _texts(self) -> list[bytes]:
        """Return the text of each row's key, beginning with the separator after the stream."""
        # one format string takes a third of the time of joining the parts
        return [("\x1f%s" * len(key) % key).encode() for key in self.keys]
