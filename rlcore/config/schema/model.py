"""Keys of `actor.model` that every model has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rlcore.config.schema.keys import Settings, When, key
from rlcore.contracts.specs import ComponentSpec


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
    num_images_in_input: int | None = key(
        "how many of the env's cameras the policy takes, from the first; null: as many as its "
        "checkpoint states (else 1), or without a checkpoint all",
        minimum=1,
        magnitude_limit=64,
    )
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

    def images(self, cameras: int, *, trained: int | None = None, most: int | None = None) -> int:
        """Return how many of the env's cameras the policy takes.

        It is `num_images_in_input`, if that is set.

        Args:
            cameras: number of the env's cameras.
            trained: number that the checkpoint states; None: it states none.
            most: most that the network takes; None: no limit.
        """
        if self.num_images_in_input is not None:
            return self.num_images_in_input
        if trained is not None:
            return trained
        if self.model_path is not None:
            return 1
        return max(1, cameras if most is None else min(cameras, most))

    def interpreter(self) -> str | None:
        """Return the Python in which the model's network computes; None: the one that runs rlcore.

        It is the path of an interpreter, or of the folder of its virtual environment.
        """
        return None

    def resolve(self, spec: ComponentSpec) -> None:
        """Set values that depend on this machine. Called while a configuration is composed.

        Args:
            spec: the registered spec of the model component.
        """

    def with_weights_from(self, folder: str | Path) -> ModelConfig:
        """Return a copy that starts from the weights in a folder; `lora_path` becomes None.

        Args:
            folder: a checkpoint that includes its adapters, if it has any.
        """
        return replace(self, model_path=str(folder), lora_path=None)
