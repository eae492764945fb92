"""Settings of RFT and the needs that follow from them. Imports no tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlcore_off_policy.settings import EXPLORATION, explore_key, policy_ema_key

from rlcore.config.schema import AlgorithmConfig, key
from rlcore.contracts.specs import AlgorithmNeeds, ReplayNeeds


@dataclass
class RFTConfig(AlgorithmConfig):
    """Keys of `algorithm=rft`; the learning rate is actor.optim.lr."""

    unused: ClassVar[Mapping[str, str]] = {
        "actor.global_batch_size": "algorithm.batch_size is the size of its steps"
    }
    name: str = key("registered name of the algorithm", "rft")
    steps: int = key("gradient steps of an update", 100, minimum=1)
    batch_size: int = key("decisions and frames of a step", 64, minimum=1)
    demonstrations: float = key(
        "share of a step's batch that is drawn from the demonstrations of sft or collect.path; the "
        "rest are own successes; before the first success, demonstrations fill the batch; 0: none "
        "are imitated",
        0.5,
        minimum=0,
        maximum=1,
    )
    explore: list[float] = explore_key()
    policy_ema: float | None = policy_ema_key()
    replay_mib: int = key(
        "MiB of own successes in the replay, over all actor processes; the oldest are dropped "
        "first",
        1024,
        minimum=1,
    )


def needs(config: RFTConfig) -> AlgorithmNeeds:
    """Return the needs: a replay of successes, demonstrations if they are imitated or explored
    around, and a policy that can imitate.
    """
    return AlgorithmNeeds(
        exact_logprobs=False,
        networks=(EXPLORATION,) if config.explore else (),
        replay=ReplayNeeds(config.replay_mib * 2**20, failures=False),
        demonstrations=config.demonstrations > 0 or bool(config.explore),
        imitation=True,
        policy_steps=config.steps,
        policy_ema=config.policy_ema,
    )
