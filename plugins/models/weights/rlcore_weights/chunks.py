"""Cut action chunks from a demonstration, the targets of a policy that predicts several actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def action_chunks(
    actions: np.ndarray, steps: Sequence[int] | np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `horizon` actions from each step on: `[B, H, A]`, the last one repeated past the end,
    and a mask bool `[B, H]`, false past the end.

    Args:
        actions: `[L, A]` of one episode.
        steps: B step numbers in [0, L).
    """
    index = np.asarray(steps)[:, None] + np.arange(horizon)
    return actions[np.minimum(index, len(actions) - 1)], index < len(actions)
