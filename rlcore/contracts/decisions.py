"""Define the results of a policy: decisions, and the re-evaluation of stored decisions.

Part of :mod:`rlcore.contracts.protocols`, which has the legend of shapes. Depends neither on the
policy nor on the loss.
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
        actions: float32 numpy array `[B, C, A]`, in the env's units, ready to execute.
        logprobs: float32 tensor `[B, C, A]`, one log-prob for each action entry; zeros in
            deterministic mode.
        values: float32 tensor `[B, V]` (V may be 0).
        replay: tensors `{name: [B, ...]}` that :meth:`rlcore.contracts.protocols.Policy.evaluate`
            needs besides the inputs; no pixels.
    """

    actions: np.ndarray
    logprobs: torch.Tensor
    values: torch.Tensor
    replay: dict[str, torch.Tensor]


@dataclass
class Evaluation:
    """Quantities of stored decisions under the current weights: float32 tensors with gradients.

    Attributes:
        logprobs: `[B, C, A]`, one log-prob for each action entry.
        values: `[B, V]`.
        entropy: `[B, C, A]`, one entropy for each action entry, or broadcastable to that shape; it
            is summed to the level of `algorithm.entropy_type`. Or `[B, 1, 1]`, one entropy per
            chunk that the policy has reduced itself (e.g. to the mean over steps and entries); it
            is not summed and counts once per chunk.
    """

    logprobs: torch.Tensor
    values: torch.Tensor
    entropy: torch.Tensor
