"""Action chunks, by hand."""

from __future__ import annotations

import numpy as np
from rlcore_weights.chunks import action_chunks


def test_action_chunks_repeat_the_last_action():
    actions = np.arange(4.0)[:, None]
    chunks, mask = action_chunks(actions, [0, 2, 3], 3)
    assert chunks[..., 0].tolist() == [[0, 1, 2], [2, 3, 3], [3, 3, 3]]
    assert mask.tolist() == [[True] * 3, [True, True, False], [True, False, False]]
