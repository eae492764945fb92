"""Keys of `rollout`: how decisions are made during rollouts."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.keys import Settings, When, key


@dataclass
class RolloutModelConfig(Settings):
    """The policy that acts; its weights are the actor's."""

    model_path: str | None = key(
        "folder of a checkpoint; null: actor.model.model_path", place="checkpoint", fixed="weights"
    )
    lora_path: str | None = key(
        "folder of adapters; null: actor.model.lora_path", place="checkpoint", fixed="weights"
    )


@dataclass
class RolloutConfig(Settings):
    """How decisions are made during rollouts."""

    model: RolloutModelConfig = key("the acting policy", RolloutModelConfig())
    pipeline_stage_num: int = key(
        "pipeline stages: one simulates while the policy computes actions for another", 1, minimum=1
    )
    enable_offload: bool = key(
        "offload the acting weights to host memory while an actor on the same accelerator updates",
        False,
    )
    forward_batch: int | None = key(
        "fixed forward batch (padded), for bitwise equal trajectories; null: all waiting rows",
        minimum=1,
        magnitude_limit=65_536,
    )
    sync: str = key(
        "how weights are sent to rollout processes that are not actors too; auto: over Ray's "
        "object store on one node, else over the network",
        "auto",
        choices=("auto", "broadcast", "object_store"),
        when=When("cluster.backend", unless=("local",)),
    )
    eval_deterministic: bool = key("evaluate without exploration noise", True)
    eval_temperature: float | None = key(
        "softmax temperature of evaluations, for models that sample tokens; null: that of training",
        exclusive_minimum=0,
        when=When("eval_deterministic", (False,)),
    )
