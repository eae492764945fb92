"""Which reward_type, logprob_type and width V of the value head go together, and why.

Light: configuration checks read this before any worker starts. The table is published by
:func:`table`; the learner works for exactly what it calls legal.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.errors import ConfigError

REWARD_TYPES = ("chunk_level", "action_level")
LOGPROB_TYPES = ("token_level", "action_level", "chunk_level")


@dataclass(frozen=True)
class Combination:
    """One row of the table.

    Attributes:
        reward_type, logprob_type: settings of the algorithm.
        value_width: width V of the value head, "1" or "C" ("0" without a critic).
        reason: why it is refused; empty if it is legal.
    """

    reward_type: str
    logprob_type: str
    value_width: str
    reason: str = ""

    @property
    def legal(self) -> bool:
        return not self.reason


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


def _reason(reward_type: str, logprob_type: str, value_width: str) -> str:
    if reward_type == "chunk_level":
        return _WIDE if value_width == "C" else ""
    if logprob_type == "chunk_level":
        return _RATIO
    return _NARROW if value_width == "1" else ""


COMBINATIONS: tuple[Combination, ...] = tuple(
    Combination(reward, logprob, width, _reason(reward, logprob, width))
    for reward in REWARD_TYPES
    for logprob in LOGPROB_TYPES
    for width in ("0", "1", "C")
)
"""Every combination for C > 1. With C = 1 chunks are actions and all of them are legal."""


def refusal(
    *, reward_type: str, logprob_type: str, value_dim: int, num_action_chunks: int
) -> str | None:
    """Why this combination is refused, or None if it is legal.

    Args:
        value_dim: V of the policy; 0 without a value head.
        num_action_chunks: C.
    """
    if value_dim not in (0, 1, num_action_chunks):
        return f"the value head must have width 1 or C = {num_action_chunks}, got {value_dim}"
    if num_action_chunks == 1:
        return None
    width = "C" if value_dim == num_action_chunks else str(value_dim)
    return _reason(reward_type, logprob_type, width) or None


def check_combination(
    *, reward_type: str, logprob_type: str, value_dim: int, num_action_chunks: int
) -> None:
    """Refuse an illegal combination.

    Raises:
        ConfigError: names the three settings, the reason and what to set instead.
    """
    reason = refusal(
        reward_type=reward_type,
        logprob_type=logprob_type,
        value_dim=value_dim,
        num_action_chunks=num_action_chunks,
    )
    if reason is not None:
        raise ConfigError(
            f"algorithm.reward_type={reward_type}, algorithm.logprob_type={logprob_type} and a "
            f"value head of width {value_dim} (C = {num_action_chunks}) don't go together",
            hint=reason,
        )


def table() -> str:
    """The table as Markdown, for the documentation."""
    rows = ["| reward_type | logprob_type | V | |", "|---|---|---|---|"]
    rows += [
        f"| {c.reward_type} | {c.logprob_type} | {c.value_width} | {c.reason or 'legal'} |"
        for c in COMBINATIONS
    ]
    return "\n".join(rows)
