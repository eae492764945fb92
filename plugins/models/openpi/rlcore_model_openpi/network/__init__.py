"""The π0 / π0.5 network, under openpi's parameter names."""

from rlcore_model_openpi.network.actor import (
    DETERMINISTIC,
    FlowActor,
    FlowSample,
    RolloutNoise,
    Score,
)
from rlcore_model_openpi.network.adapt import add_lora, freeze_vlm, set_precision
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixCache, PrefixInputs

__all__ = [
    "DETERMINISTIC",
    "FlowActor",
    "FlowSample",
    "PiNetwork",
    "PrefixCache",
    "PrefixInputs",
    "RolloutNoise",
    "Score",
    "add_lora",
    "freeze_vlm",
    "set_precision",
]
