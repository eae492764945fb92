"""Run rollout and actor in one process over one set of weights: the fused worker.

It acts with the weights that it trains, so there is no weight sync and no second copy, and the
trajectory is not sent to another process. While it acts, only the learner's other tensors can be
offloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlcore.contracts.protocols import Policy
from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.rollout_worker import RolloutWorker

if TYPE_CHECKING:
    from torch import Tensor


class FusedWorker(RolloutWorker, ActorWorker):
    """Worker that collects trajectories and trains the policy on them."""

    @property
    def policy(self) -> Policy:
        """The policy, on its device. It is never offloaded; a new one may have to be moved."""
        if not self._on_device:
            self._restore_to_device()
        return self._current_policy

    def _tensors_to_offload(self) -> Iterator[Tensor]:
        """Yield the learner's tensors alone: acting needs the weights."""
        yield from self._learner_tensors()
