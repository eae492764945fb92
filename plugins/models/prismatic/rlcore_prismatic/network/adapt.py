"""Which weights are trained, and in which precision: adapters, bf16, unused weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore_prismatic.layout import LORA_TARGETS, is_film, is_unused
from rlcore_prismatic.sizes import PrismaticSize

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def set_precision(network: nn.Module, precision: str) -> None:
    """Cast the weights in place, "fp32" or "bf16". Heads and the log-probs stay in fp32."""
    for parameter in network.parameters():
        parameter.data = parameter.data.to(DTYPES[precision])


def add_lora(network: nn.Module, rank: int, alpha: float) -> None:
    """Add low-rank adapters (without dropout) to the projections that the reference adapts, in
    place, and freeze everything else but FiLM. At first they change nothing: B is zero."""
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # any number, though declared an integer
        lora_dropout=0.0,
        init_lora_weights="gaussian",
        target_modules=list(LORA_TARGETS),
    )
    inject_adapter_in_model(config, network)
    for name, parameter in network.named_parameters():
        if ".lora_" in name:  # in bf16 the steps of a small learning rate are lost
            parameter.data = parameter.data.float()
        elif is_film(name):
            parameter.requires_grad_(True)


def output_entries(layer: Any, x: Tensor, entries: slice) -> Tensor:
    """Some entries of the output of a linear map without bias (with or without adapters) for `x`
    `[..., D]`; the others are not computed."""
    y = F.linear(x, getattr(layer, "base_layer", layer).weight[entries])
    for name in getattr(layer, "active_adapters", ()):
        a, b = layer.lora_A[name].weight, layer.lora_B[name].weight[entries]
        y = y + layer.scaling[name] * F.linear(F.linear(x.to(a.dtype), a), b)
    return y


def lora_scale(network: nn.Module) -> tuple[int, float]:
    """Rank and alpha of the network's adapters; all have the same."""
    from peft.tuners.lora import LoraLayer

    layer = next(part for part in network.modules() if isinstance(part, LoraLayer))
    (name,) = layer.active_adapters
    return layer.r[name], layer.lora_alpha[name]


def freeze_unused(network: nn.Module, size: PrismaticSize) -> None:
    """Freeze weights and adapters without effect on the network's output."""
    for name, parameter in network.named_parameters():
        if is_unused(name, size):
            parameter.requires_grad_(False)
