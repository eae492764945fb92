"""MetaWorld's experts as demonstrators."""

from __future__ import annotations

import numpy as np
from metaworld_cases import EnvMaker

from rlcore.contracts.specs import Episode

CLEAN = {"action_noise": 0.0, "speed": 1.0, "stride": 4, "seed": 0}


def test_speed_scales_motion_but_not_the_gripper(make: EnvMaker) -> None:
    env = make(1, 0)
    (full,) = env.demonstrate([Episode(0, 3)], **CLEAN)
    (slow,) = env.demonstrate([Episode(0, 3)], **(CLEAN | {"speed": 0.5}))
    np.testing.assert_allclose(slow.actions[0, :3], 0.5 * full.actions[0, :3], rtol=1e-6)
    assert slow.actions[0, 3] == full.actions[0, 3]
    assert len(slow.actions) > len(full.actions)
