"""The fused worker: rollout and actor over one set of weights.

It acts with the very weights it trains: nothing to sync, no second copy, and the trajectory stays
where it was gathered. What it does is what its two halves do.
"""

from __future__ import annotations

from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.rollout_worker import RolloutWorker


class FusedWorker(RolloutWorker, ActorWorker):
    """Acts and learns."""
