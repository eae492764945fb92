"""Run rollout and actor over one set of weights: the fused worker.

It acts with the very weights it trains: nothing to sync, no second copy, and the trajectory stays
where it was gathered. It does what its two halves do. While it acts, only what learning
needs besides the weights can be offloaded.
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
    """Acts and learns."""

    @property
    def policy(self) -> Policy:
        """It never leaves."""
        if not self._placed_yet:
            self._arrive()
        return self._held

    def _leaving(self) -> Iterator[Tensor]:
        yield from self._learned()
