"""Decide which combinations of reward_type, logprob_type and value head width V are legal.

Imports no tensor library: configuration checks use it before any worker starts. The learner
supports exactly the legal combinations; docs/algorithms.md has the table.
"""

from __future__ import annotations

_RATIO = (
    "one ratio per chunk can't be weighed by C advantages: use logprob_type action_level or "
    "token_level, or reward_type chunk_level"
)
_NARROW = (
    "advantages per action need a value per action: the value head must have width C (a value per "
    "action: the model's value_type=action_level)"
)
_WIDE = (
    "one reward per chunk has one value: the value head must have width 1 (a value per chunk: the "
    "model's value_type=chunk_level)"
)


def refusal(
    *, reward_type: str, logprob_type: str, value_dim: int, num_action_chunks: int
) -> str | None:
    """Return why this combination is refused, or None if it is legal.

    Args:
        reward_type, logprob_type: settings of the algorithm.
        value_dim: V of the policy; 0 without a value head.
        num_action_chunks: C. With C = 1 a chunk is one action, so every combination with V of 0 or
            1 is legal.
    """
    if value_dim not in (0, 1, num_action_chunks):
        return f"the value head must have width 1 or C = {num_action_chunks}, got {value_dim}"
    if num_action_chunks == 1:
        return None
    if reward_type == "chunk_level":
        return _WIDE if value_dim == num_action_chunks else None
    if logprob_type == "chunk_level":
        return _RATIO
    return _NARROW if value_dim == 1 else None
