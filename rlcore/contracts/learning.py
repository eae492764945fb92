"""Define the gradient steps of an update, and the replay from which they learn.

An algorithm gets both through :class:`rlcore.contracts.protocols.Learning`.

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

RowKind = Literal["all", "successes", "failures", "demonstrations"]
"""Kind of rows in a replay: all decisions of the policy, those of successful episodes, those of all
other episodes, or all frames of the demonstrations."""
Terms = tuple[Tensor, dict[str, Metric]]
RowLoss = Callable[[Tensor, "RowKeys"], Terms]
"""Function of rows, int64 `[B]`, and of their keys for noise. It returns losses `[B]`, with
gradients, and metrics by name."""


def _always(metrics: Metrics) -> bool:
    return True


@dataclass(frozen=True)
class Step:
    """One gradient step.

    Attributes:
        trains: parameter groups that the step changes: "policy", "value" or names of networks.
            Gradients may flow through other groups, but do not change them.
        samples: number of the step's samples that this process holds.
        loss: function of the samples of a micro-batch, as indices int64 `[B]` in [0, samples). It
            returns their share in the loss of the step, and metrics by name. The loss of the step
            is the sum of the shares over micro-batches and processes. If processes run their
            forwards in lockstep, B may be 0; the share then needs gradients, which are zero.
        accept: called on every process with the metrics of that process, after the gradients were
            summed over processes and before any parameter changes. False drops the step and ends
            the update, so the result must be the same on all processes.
        name: name of the step in metrics, as in `train/NAME/grad_norm`.
    """

    trains: Sequence[str]
    samples: int
    loss: Callable[[Tensor], Terms]
    accept: Callable[[Metrics], bool] = _always
    name: str = "actor"


@dataclass(frozen=True)
class NStepTargets:
    """The parts of n-step targets for B decisions.

    Attributes:
        rewards: float32 `[B]`, sum of the rewards of up to n chunks from the decision on,
            discounted to the decision.
        discounts: float32 `[B]`, factor of the next value: gamma to the power of the number of
            executed steps; 0 if the episode terminated within the n chunks. If a time limit or the
            end of the rollout cut it within them, the next value is that of the final observation
            where `ReplayNeeds.final_decisions` stores it; else the factor is 0.
        valid: bool `[B]`, false if the episode was cut within the n chunks and the final
            observation is not stored. The next value is then unknown, and such rows should be
            masked out.
        truncated: bool `[B]`, true if it was a time limit that cut the episode within the n chunks.
            An algorithm whose networks see the elapsed time may count it as an end with value 0
            (finite horizon; Pardo et al. 2018, arXiv 1712.00378), so that such rows are valid too.
        actions: float32 `[B, C, A]`, chunk of the decision n chunks later, or of that at the final
            observation; arbitrary if the discount is 0.
        inputs: `{name: [B, ...]}` of the same decision; arbitrary if the discount is 0.
    """

    rewards: Tensor
    discounts: Tensor
    valid: Tensor
    truncated: Tensor
    actions: Tensor
    inputs: dict[str, Tensor]


class Replay(Protocol):
    """Demonstrations, and decisions of all stored rollouts including the current one.

    Row numbers are the same on all processes, but each process holds the inputs of only some rows.
    Row numbers are valid until the next update. The decision after row r in an episode is row
    r + 1.
    """

    def count(self, among: RowKind = "all") -> int:
        """Return the number of rows of a kind, on all processes."""
        ...

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the policy's inputs as `prepare` made them, and the tensors that
        `ReplayNeeds.outputs` names: `{name: [B, ...]}` on the policy's device.

        Args:
            rows: int64 `[B]`; this process must hold their inputs. The rows that it passes to the
                loss of a step are such rows.
        """
        ...

    def actions(self, rows: Tensor) -> Tensor:
        """Return chunks as decided, float32 `[B, C, A]`, including actions after the end of the
        episode, which were not executed. A demonstration's chunk is what the expert did from the
        frame on; past the end, the last action is repeated."""
        ...

    def action_targets(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the H actions executed from each decision on, and a mask.

        Returns:
            Actions float32 `[B, H, A]`, clipped to the env's range; past the end of the episode,
            the last action is repeated. Mask bool `[B, H]`, false past the end.
        """
        ...

    def demonstration(self, rows: Tensor) -> Tensor:
        """Return the numbers of the demonstrations of which rows are frames, int64 `[B]` on the
        host.

        Args:
            rows: rows of demonstrations, int64 `[B]`.
        """
        ...

    def n_step_targets(self, rows: Tensor, *, chunks: int, gamma: float) -> NStepTargets:
        """Return the parts of n-step targets.

        A demonstration's last step has reward `env.train.reward_coef` and terminates the episode;
        all others have reward 0; see `AlgorithmNeeds.demonstration_chunks`. The row of a frame is
        valid if its demonstration ends within the n chunks, or if there is a frame n C steps later.

        Args:
            rows: int64 `[B]`; this process must hold their inputs.
            chunks: n, the number of chunks whose rewards are summed.
            gamma: discount factor of one env step.
        """
        ...
