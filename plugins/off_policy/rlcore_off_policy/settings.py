"""Settings that several algorithms have. Imports no tensor library."""

from __future__ import annotations

from typing import Any

from rlcore.config.schema import key
from rlcore.contracts.specs import NetworkNeeds

EXPLORATION = NetworkNeeds("explore", 0.0, acts_with="online", explores=True)
"""The network of `explore`, which has buffers alone (:mod:`rlcore_off_policy.exploration`)."""


def explore_key() -> Any:
    """Return the field `explore` of an algorithm's settings."""
    return key(
        "exploration: standard deviations of a shift of all actions of a training episode, in "
        "units of the spread of the demonstrations' actions; each episode draws one of them, more "
        "often one whose episodes succeed, and then its shift; the first rollout, before the "
        "spread is known, has none; []: off",
        [],
        minimum=0,
    )


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
