"""What LIBERO's controller makes of a rotation command, and of one that is almost nothing."""

from __future__ import annotations

import numpy as np
import pytest
from libero_cases import EnvMaker, needs_libero

from rlcore.contracts.specs import Episode

TURN = 5  # entry of an action, and of the state: rotation about the vertical axis


@pytest.mark.long
@needs_libero
def test_a_rotation_of_exactly_zero_is_another_command_than_the_smallest_one(
    make: EnvMaker,
) -> None:
    """While the hand is carried sideways it turns a little. Told exactly 0, the controller turns it
    back to where it was; told 5e-5 rad, it keeps what it finds. Ten steps of that sum to 0.0005 rad
    if they were only rotations, and come to a hundred times as much."""
    env = make(1, 0, settle_steps=10)

    def turned(command: float) -> float:
        """Radians about the vertical axis after ten steps to the side."""
        start, _ = env.reset(options={"episodes": [Episode(0, 0)]})
        actions = np.zeros((1, 10, 7), dtype=np.float32)
        actions[..., :2], actions[..., TURN], actions[..., 6] = (0.85, -0.85), command, -1.0
        end = env.chunk_step(actions).observation
        return float(end["states"][0, TURN] - start["states"][0, TURN])

    assert turned(1e-4) - turned(0.0) > 0.05
