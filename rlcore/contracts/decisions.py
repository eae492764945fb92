"""Define the results of a policy: of deciding, and of re-evaluating stored decisions.

Part of :mod:`rlcore.contracts.protocols`, where the legend of shapes is. Knows neither policy nor
loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


@dataclass
class PolicyOutput:
    """The decisions of a policy for B rows.

    Attributes:
        actions: float32 numpy `[B, C, A]`, in the env's units, ready to execute.
        logprobs: float32 tensor `[B, C, A]`, elementwise (zeros in deterministic mode).
        values: float32 tensor `[B, V]` (V may be 0).
        replay: tensors `[B, ...]` from which a policy's `evaluate` recomputes; no pixels.
    """

    actions: np.ndarray
    logprobs: torch.Tensor
    values: torch.Tensor
    replay: dict[str, torch.Tensor]


@dataclass
class Evaluation:
    """Recomputed quantities, all float32 with gradients.

    Attributes:
        logprobs: elementwise `[B, C, A]`.
        values: `[B, V]`.
        entropy: elementwise `[B, C, A]` or broadcastable to it, summed up to
            `algorithm.entropy_type`; or one entry per chunk `[B, 1, 1]`, which the policy has
            reduced itself (to a mean over steps and entries, say) and which is never summed
            again: it counts once per chunk.
    """

    logprobs: torch.Tensor
    values: torch.Tensor
    entropy: torch.Tensor
