"""Convert actions to tokens: 256 values per entry, the vocabulary's last tokens. Numpy only.

A normalised entry x in [-1, 1] falls into one of the bins between 256 evenly spaced edges. Tokens
number the bins from the top: the higher the value, the lower the token. 256 edges make 255 bins, so
two tokens stand for the top bin (OpenVLA, Kim et al. 2024, and its code).
"""

from __future__ import annotations

import numpy as np


class ActionTokenizer:
    """Converts normalised entries to indices 0..bins-1 of action tokens, and back.

    Index i is the token with id `vocab - bins + i`.

    Args:
        bins: number of tokens, and of edges.
    """

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.edges = np.linspace(-1.0, 1.0, bins)
        self.centers = (self.edges[:-1] + self.edges[1:]) / 2.0

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Clip normalised entries to [-1, 1] and return their indices, int64 of the same shape."""
        # digitize numbers the interval right of edge k as k + 1
        return self.bins - np.digitize(np.clip(values, -1.0, 1.0), self.edges)

    def decode(self, indices: np.ndarray) -> np.ndarray:
        """Return the centres of the bins of `indices`, float64 of the same shape."""
        number = np.clip(self.bins - indices - 1, 0, len(self.centers) - 1)
        return self.centers[number]
