"""Settings of EXPO and the needs that follow from them. Imports no tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlcore.config.schema import AlgorithmConfig, NetworkOptimConfig, When, key
from rlcore.contracts.specs import AlgorithmNeeds, NetworkNeeds, ReplayNeeds

MOST_PARAMETERS = 8_000_000
"""Upper bound of the parameters of the critics, and of the edits, for the memory estimate; it holds
for chunks of hundreds of entries."""


@dataclass
class ExpoConfig(AlgorithmConfig):
    """Keys of `algorithm=expo`; actor.optim is of the policy alone."""

    unused: ClassVar[Mapping[str, str]] = {
        "actor.global_batch_size": "algorithm.batch_size and imitation_batch_size are the sizes of "
        "its steps"
    }
    name: str = key("registered name of the algorithm", "expo")
    gamma: float = key("discount per chunk", 0.97, exclusive_minimum=0, maximum=1)
    samples: int = key("chunks that the policy draws for a decision", 4, minimum=1)
    edits: int = key("edits of each of them; 0: the critic chooses among them alone", 1, minimum=0)
    edit_scale: float = key(
        "largest edit, in units of half an action's range", 0.2, exclusive_minimum=0, maximum=2
    )
    edit_points: int | None = key(
        "numbers that an edit has for each entry over a chunk, with straight lines between them: "
        "noise that lasts explores further; null: one for each action",
        2,
        minimum=1,
    )
    alpha: float = key("coefficient of the entropy of edits", 0.005, minimum=0)
    warmup: int = key("updates in which the critic learns and the policy acts alone", 2, minimum=0)
    critics: int = key("networks that judge chunks", 5, minimum=1)
    caution: float = key(
        "standard deviations of the critics that are taken from their mean to choose a chunk: "
        "they differ where they have seen little",
        1.0,
        minimum=0,
    )
    initial_value: float = key(
        "what a critic expects before it has learned: 0 as for rewards of 0 and 1; 1 is the same "
        "as rewards of -1 until success, which tries what is unknown",
        0.0,
    )
    lag: float = key(
        "share by which the critics that act follow those that learn",
        0.02,
        exclusive_minimum=0,
        maximum=1,
    )
    critic_lr: float = key("learning rate of the critics", 3e-4, exclusive_minimum=0)
    edit_lr: float = key(
        "learning rate of the edits", 3e-4, exclusive_minimum=0, when=When("edits", unless=(0,))
    )
    critic_optim: NetworkOptimConfig = key("optimizer of the critics", NetworkOptimConfig())
    edit_optim: NetworkOptimConfig = key(
        "optimizer of the edits", NetworkOptimConfig(), when=When("edits", unless=(0,))
    )
    critic_steps: int = key("gradient steps of the critics in an update", 200, minimum=0)
    edit_every: int = key("steps of the critics for one of the edits", 2, minimum=1)
    batch_size: int = key("decisions of a step of critics and edits", 128, minimum=1)
    successes: float = key(
        "share of such a batch from episodes that succeeded", 0.5, minimum=0, maximum=1
    )
    chunks: int = key("chunks whose rewards a target adds up", 1, minimum=1)
    target_samples: int = key(
        "chunks that the policy draws for a target, each a forward; 0: the chunk that was played "
        "there, and edits of it",
        0,
        minimum=0,
    )
    imitation_steps: int = key("supervised steps of the policy in an update", 50, minimum=0)
    imitation_batch_size: int = key("decisions and frames of such a step", 64, minimum=1)
    demonstrations: float = key(
        "share of such a batch from the demonstrations of sft or collect.path; 0: none are read",
        0.5,
        minimum=0,
        maximum=1,
    )
    replay_mib: int = key(
        "MiB of decisions that are kept, of all actor processes; the oldest go first",
        1024,
        minimum=1,
    )


def needs(config: ExpoConfig) -> AlgorithmNeeds:
    """Return the needs: a replay, target critics and edits that act, and, with `imitation_steps`, a
    policy that can imitate."""
    imitates = config.imitation_steps > 0
    critic = NetworkNeeds(
        "critic",
        config.critic_lr,
        MOST_PARAMETERS,
        polyak=config.lag,
        acts_with="target",
        optim=config.critic_optim.adamw,
    )
    edit = NetworkNeeds(
        "edit", config.edit_lr, MOST_PARAMETERS, acts_with="online", optim=config.edit_optim.adamw
    )
    return AlgorithmNeeds(
        exact_logprobs=False,
        networks=(critic, edit),
        replay=ReplayNeeds(config.replay_mib * 2**20),
        demonstrations=imitates and config.demonstrations > 0,
        imitation=imitates,
    )
