"""A time limit is an end only where critics see the elapsed time."""

from __future__ import annotations

import numpy as np
from rlcore_off_policy.time_limits import require_elapsed

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import PolicySpec


def test_another_single_float_is_not_the_elapsed_time(refused):
    policy = PolicySpec("line", 0, 1, 1, 1, 1)
    require_elapsed(policy, {"elapsed": np.zeros(1, np.float32)})
    with refused(ConfigError, "algorithm.time_limits=end", "line", "gripper"):
        require_elapsed(policy, {"gripper": np.zeros(1, np.float32)})
