"""Action tokens, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from rlcore_prismatic.actions import ActionTokenizer


def test_five_tokens_by_hand():
    """Edges -1, -.5, 0, .5, 1: four bins; the token of the lowest is the last one."""
    tokens = ActionTokenizer(5)
    values = np.array([-1.0, -0.75, -0.5, 0.2, 0.6, 0.99, 1.0, 7.0, -7.0])
    # digitize:           1     1     2    3    4    4     5    5    1;  index = 5 - that
    assert tokens.encode(values).tolist() == [4, 4, 3, 2, 1, 1, 0, 0, 4]
    # middles, from the last token on: -.75, -.25, .25, .75, and .75 again for the topmost edge
    assert tokens.decode(np.array([4, 3, 2, 1, 0])).tolist() == [-0.75, -0.25, 0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("token", "centre"),
    [(31744, 254), (31745, 254), (31746, 253), (31999, 0)],
)
def test_published_ids(token, centre):
    """bin = clip(32000 - id - 1, 0, 254) of the middles of linspace(-1, 1, 256)."""
    edges = np.linspace(-1, 1, 256)
    middle = (edges[centre] + edges[centre + 1]) / 2
    assert ActionTokenizer(256).decode(np.array([token - 31744]))[0] == pytest.approx(middle)


def test_a_round_trip_moves_a_value_by_half_a_bin_at_most():
    tokens = ActionTokenizer(256)
    values = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    back = tokens.decode(tokens.encode(values))
    assert back.shape == values.shape and np.abs(back - values).max() <= 1 / 255 + 1e-12
    indices = np.arange(1, 256)  # the topmost token has no bin of its own
    np.testing.assert_array_equal(tokens.encode(tokens.decode(indices)), indices)
