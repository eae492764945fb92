"""Set which weights are trained and in which precision: adapters, bf16, unused weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from rlcore_weights.tensors import add_adapters
from torch import Tensor, nn

from rlcore_prismatic.layout import LORA_TARGETS, is_film, is_unused
from rlcore_prismatic.sizes import PrismaticSize

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def set_precision(network: nn.Module, precision: str) -> None:
    """Cast the weights in place, "fp32" or "bf16". Heads and log-probs remain fp32."""
    for parameter in network.parameters():
        parameter.data = parameter.data.to(DTYPES[precision])


def add_lora(
    network: nn.Module, rank: int, alpha: float, modules: Sequence[str] = LORA_TARGETS
) -> None:
    """Add low-rank adapters (without dropout) in place, and freeze all other weights except FiLM's.

    Adapters start without an effect, because B is zero.

    Args:
        modules: names of modules, or their last parts; by default the modules that the reference
            adapts.
    """
    add_adapters(network, rank, alpha, modules)
    for name, parameter in network.named_parameters():
        if is_film(name):
            parameter.requires_grad_(True)


def output_entries(layer: Any, x: Tensor, entries: slice) -> Tensor:
    """Compute only some entries of the output of a linear map for `x` `[..., D]`.

    The map has no bias, and may have adapters.

    Args:
        layer: an `nn.Linear`, or the layer of peft around one.
    """
    if isinstance(layer, nn.Linear):
        return F.linear(x, layer.weight[entries])
    y = F.linear(x, layer.base_layer.weight[entries])
    for name in layer.active_adapters:
        a = layer.lora_A[name].weight
        b = layer.lora_B[name].weight[entries]
        y = y + layer.scaling[name] * F.linear(F.linear(x.to(a.dtype), a), b)
    return y


def adapted_modules(network: nn.Module) -> list[str]:
    """Return the modules with adapters, as peft's settings name them.

    These are the last parts of their names if all modules with such names have adapters, otherwise
    the whole names.
    """
    from peft.tuners.lora import LoraLayer

    parts = dict(network.named_modules())
    adapted = [name for name, part in parts.items() if isinstance(part, LoraLayer)]
    ends = {_last_part(name) for name in adapted}
    if len(adapted) < sum(_last_part(name) in ends for name in parts):
        return adapted
    reference = {_last_part(name) for name in parts} & {*LORA_TARGETS}
    return list(LORA_TARGETS) if ends == reference else sorted(ends)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def lora_scale(network: nn.Module) -> tuple[int, float]:
    """Return rank and alpha of the network's adapters; all have the same."""
    from peft.tuners.lora import LoraLayer

    layer = next(part for part in network.modules() if isinstance(part, LoraLayer))
    (name,) = layer.active_adapters
    return layer.r[name], layer.lora_alpha[name]


def freeze_unused(network: nn.Module, size: PrismaticSize) -> None:
    """Freeze weights and adapters without effect on the network's output."""
    for name, parameter in network.named_parameters():
        if is_unused(name, size):
            parameter.requires_grad_(False)
