"""The key of a moving average of the policy's weights. Imports no tensor library."""

from __future__ import annotations

from typing import Any

from rlcore.config.schema import key


def policy_ema_key() -> Any:
    """Return the field `policy_ema` of an algorithm's settings."""
    return key(
        "weight t of a step in a moving average of the policy's weights, w' <- (1 - t) w' + t w, "
        "over about 1/t steps; the average plays episodes and is saved, so that a high learning "
        "rate does not spoil a policy that has to be precise; critics and edits are not averaged; "
        "null: the trained weights play",
        exclusive_minimum=0,
        maximum=1,
    )
