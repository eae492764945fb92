"""Vision towers, projector, Llama, critic and adapters."""

from rlcore_prismatic.network.adapt import (
    adapted_modules,
    add_lora,
    freeze_unused,
    lora_scale,
    set_precision,
)
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel, multimodal

__all__ = [
    "PrismaticModel",
    "ValueHead",
    "adapted_modules",
    "add_lora",
    "freeze_unused",
    "lora_scale",
    "multimodal",
    "set_precision",
]
