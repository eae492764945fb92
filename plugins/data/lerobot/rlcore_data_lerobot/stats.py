"""Statistics of features as LeRobot stores them: per episode, and merged over all episodes.

    per feature  min, max, mean, std (of the population), count [1], q01, q10, q50, q90, q99

Statistics of images are per channel, in [0, 1], with the shape (3, 1, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
Stats = dict[str, np.ndarray]


def of_numbers(values: np.ndarray) -> Stats:
    """Return the statistics of numbers `[L, n]`, each an array `[n]`; count has the shape [1]."""
    numbers = values.astype(np.float64)
    return {
        "min": numbers.min(0),
        "max": numbers.max(0),
        "mean": numbers.mean(0),
        "std": numbers.std(0),
        "count": np.array([len(numbers)]),
        **{name: np.quantile(numbers, q, axis=0) for name, q in QUANTILES.items()},
    }


def of_frames(frames: np.ndarray) -> Stats:
    """Return the statistics of frames uint8 `[F, H, W, 3]` over all pixels, from histograms."""
    counts = np.stack([np.bincount(frames[..., c].ravel(), minlength=256) for c in range(3)])
    shares = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255.0
    mean = shares @ values
    below = shares.cumsum(1)
    statistics = {
        "min": values[(counts > 0).argmax(1)],
        "max": values[255 - (counts[:, ::-1] > 0).argmax(1)],
        "mean": mean,
        "std": np.sqrt((shares * (values - mean[:, None]) ** 2).sum(1)),
        **{name: values[(below >= q - 1e-12).argmax(1)] for name, q in QUANTILES.items()},
    }
    shaped = {name: value.reshape(3, 1, 1) for name, value in statistics.items()}
    return {**shaped, "count": np.array([len(frames)])}


def merged(parts: Sequence[Stats]) -> Stats:
    """Merge the statistics of episodes.

    Quantiles are means of the episodes' quantiles, weighted by length, as LeRobot merges them:
    exact ones would need all numbers.
    """
    counts = np.array([part["count"][0] for part in parts], np.float64)
    weights = counts / counts.sum()

    def mean_of(name: str) -> np.ndarray:
        return np.asarray(sum(w * part[name] for w, part in zip(weights, parts, strict=True)))

    mean = mean_of("mean")
    spread = sum(
        w * (part["std"] ** 2 + (part["mean"] - mean) ** 2)
        for w, part in zip(weights, parts, strict=True)
    )
    return {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": mean,
        "std": np.sqrt(spread),
        "count": np.array([int(counts.sum())]),
        **{name: mean_of(name) for name in QUANTILES},
    }


def to_lists(stats: dict[str, Stats]) -> dict[str, Any]:
    """Return the statistics of all features with lists in place of arrays, for JSON."""
    return {
        feature: {name: array.tolist() for name, array in feature_stats.items()}
        for feature, feature_stats in stats.items()
    }
