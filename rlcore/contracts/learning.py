"""Define the steps that an algorithm makes an update of, and the replay that they learn from.

Part of what :class:`rlcore.contracts.protocols.Learning` gives it.

Legend: B rows, C actions of a chunk, H the policy's action horizon, A entries of an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from torch import Tensor

from rlcore.contracts.metric import Metric, Metrics

if TYPE_CHECKING:
    from rlcore.contracts.rng import RowKeys

Among = Literal["all", "successes", "failures", "demonstrations"]
"""Rows of a replay: decisions of the policy, those of its successful episodes, those of the others,
or every frame of the demonstrations."""
Terms = tuple[Tensor, dict[str, Metric]]
RowLoss = Callable[[Tensor, "RowKeys"], Terms]
"""Losses `[B]` of rows int64 `[B]`, with gradients, and metrics; the keys are for their noise."""


def _always(metrics: Metrics) -> bool:
    return True


@dataclass(frozen=True)
class Step:
    """One gradient step.

    Attributes:
        trains: groups of parameters that it changes: "policy", "value", names of networks. Through
            others gradients pass, and change nothing.
        samples: how many of its samples this process holds.
        loss: what some of these, int64 `[B]` below `samples`, add to the loss of the step, and
            metrics. The shares of micro-batches and processes add up. Where processes make each
            forward together, B may be 0: a share with gradients that are zero.
        accept: asked on all processes with the metrics of this one, when the gradients are there
            and nothing has changed yet; false ends the update.
        name: of its metrics, as in `train/NAME/grad_norm`.
    """

    trains: Sequence[str]
    samples: int
    loss: Callable[[Tensor], Terms]
    accept: Callable[[Metrics], bool] = _always
    name: str = "actor"


@dataclass(frozen=True)
class Following:
    """What came of B decisions within some chunks.

    Attributes:
        rewards: float32 `[B]`, discounted to the decision.
        discounts: float32 `[B]` of what comes then: gamma to the number of steps that were
            executed; 0 where the episode ended, a time limit included.
        known: bool `[B]`, false where a time limit or the end of a rollout cut it: what would have
            come then was not seen, as the last frame is not kept. Such rows are better left out.
        inputs: `{name: [B, ...]}` of the decision that came then; anything where the discount is 0.
    """

    rewards: Tensor
    discounts: Tensor
    known: Tensor
    inputs: dict[str, Tensor]


class Replay(Protocol):
    """Demonstrations, and decisions of rollouts up to the one under way, by global number: the same
    on all processes, though each holds the inputs of some rows only. Numbers hold for an update;
    the decision after row r of an episode is row r + 1.
    """

    def count(self, among: Among = "all") -> int:
        """Count the rows of a kind."""
        ...

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return what the policy saw, as `prepare` made it, and what `ReplayNeeds.decided` names,
        `{name: [B, ...]}`, on the policy's device."""
        ...

    def actions(self, rows: Tensor) -> Tensor:
        """Return chunks as they were decided, float32 `[B, C, A]`, also what an episode's end left
        unexecuted; not of demonstrations."""
        ...

    def action_targets(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions executed from there on, float32 `[B, H, A]` within the env's range, the
        last one repeated past the end of the episode, and a mask bool `[B, H]`, false there."""
        ...

    def following(self, rows: Tensor, *, chunks: int, gamma: float) -> Following:
        """Return the rewards of up to so many chunks, and what came then; not of demonstrations.

        Args:
            chunks: n of n-step targets.
            gamma: discount of an env step.
        """
        ...
