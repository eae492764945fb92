"""Keys of `actor.model` that every model has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rlcore.config.schema.keys import Settings, When, key


@dataclass
class ModelConfig(Settings):
    """Settings every model has; a plugin's dataclass adds its own."""

    model_type: str = key("registered name of the model", "???")
    model_path: str | None = key(
        "folder of a checkpoint, or its name on the hub (ORG/NAME), once downloaded; null: random "
        "weights of this size",
        own=True,
        place="checkpoint",
        fixed="weights",
    )
    lora_path: str | None = key(
        "folder of low-rank adapters in peft's format for the model in model_path: trained on with "
        "is_lora, else merged into it; null: none, or those in model_path",
        own=True,
        place="checkpoint",
        fixed="weights",
    )
    precision: str = key(
        "parameters and compute; the optimizer's are fp32", "fp32", choices=("fp32", "bf16")
    )
    num_action_chunks: int = key(
        "C: actions executed per decision", 5, minimum=1, magnitude_limit=4096
    )
    action_dim: int | None = key(
        "entries of an env action; null: the env's", minimum=1, magnitude_limit=4096, own=True
    )
    add_value_head: bool | None = key("add a critic; null: where the algorithm needs values")
    num_images_in_input: int = key("cameras the policy takes", 1, minimum=1, magnitude_limit=64)
    is_lora: bool = key("train low-rank adapters instead of the weights", False, fixed="weights")
    lora_rank: int = key(
        "rank of the adapters (alpha equals it)",
        32,
        minimum=1,
        magnitude_limit=65_536,
        when=When("is_lora", (True,)),
        fixed="weights",
    )
    save_adapters_only: bool = key(
        "with is_lora: checkpoints hold the adapters and point to the model they adapt; false: "
        "they are merged into its weights",
        False,
        when=When("is_lora", (True,)),
    )

    def with_weights_from(self, folder: str | Path) -> ModelConfig:
        """Return a copy that starts from the weights in a folder; `lora_path` becomes None.

        Args:
            folder: a checkpoint that includes its adapters, if it has any.
        """
        return replace(self, model_path=str(folder), lora_path=None)
