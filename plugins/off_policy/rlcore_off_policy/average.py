"""The key of a moving average of the policy's weights. Imports no tensor library."""

from __future__ import annotations

from typing import Any

from rlcore.config.schema import key


def policy_ema_key() -> Any:
    """Return the field `policy_ema` of an algorithm's settings."""
    return key(
        "coefficient t of the moving average of the policy's weights, w' <- (1 - t) w' + t w after "
        "each of its steps; the average plays episodes and is saved, so that the noise of a high "
        "learning rate does not cost a precise policy its success; null: the trained weights do",
        exclusive_minimum=0,
        maximum=1,
    )
