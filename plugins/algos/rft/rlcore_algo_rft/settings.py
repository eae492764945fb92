"""Settings of RFT and the needs that follow from them. Imports no tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlcore_off_policy.average import policy_ema_key

from rlcore.config.schema import AlgorithmConfig, key
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import AlgorithmNeeds, NetworkNeeds, ReplayNeeds


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
    episode_shift: float = key(
        "exploration: std of a shift of all actions of a training episode, drawn once per episode, "
        "in units of half of each entry's range",
        0.0,
        minimum=0,
    )
    explore: list[float] = key(
        "scales of exploration in place of episode_shift, in units of the spread of the "
        "demonstrations' actions: each training episode draws one, more often one whose episodes "
        "succeed; the first rollout, before the spread is known, has none; []: off",
        [],
        minimum=0,
    )
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

    Raises:
        ConfigError: both keys of exploration are set.
    """
    if config.explore and config.episode_shift:
        raise ConfigError(
            "algorithm.episode_shift must be 0 where algorithm.explore is set, got "
            f"{config.episode_shift} and {config.explore}",
            hint="algorithm.episode_shift=0",
        )
    # it has buffers alone
    explore = NetworkNeeds("explore", 0.0, acts_with="online", explores=True)
    return AlgorithmNeeds(
        exact_logprobs=False,
        networks=(explore,) if config.explore else (),
        replay=ReplayNeeds(config.replay_mib * 2**20, failures=False),
        demonstrations=config.demonstrations > 0 or bool(config.explore),
        imitation=True,
        episode_shift=config.episode_shift,
        policy_steps=config.steps,
        policy_ema=config.policy_ema,
    )
