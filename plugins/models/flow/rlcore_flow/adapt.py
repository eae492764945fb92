"""Set which weights are trained and in which precision: frozen VLM, adapters, bf16."""

from __future__ import annotations

import torch
from rlcore_weights.tensors import add_adapters

from rlcore_flow.layers import AdaRMSNorm, LlamaRMSNorm, RMSNorm
from rlcore_flow.network import FlowNetwork

# Modules that remain fp32 when the rest is bf16, as in openpi: by type, or by their names.
_NORMS = (RMSNorm, AdaRMSNorm, LlamaRMSNorm)
_EMBEDDINGS = ("patch_embedding", "position_embedding")


def set_precision(network: FlowNetwork, precision: str) -> None:
    """Cast the weights in place.

    Args:
        precision: "fp32", or "bf16": VLM and expert in bf16 except their RMS norms and the image
            embeddings; the projections of state, actions and time are fp32.
    """
    norms = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, _NORMS)
        for parameter in module.parameters()
    }
    for name, parameter in network.named_parameters():
        inside = name.startswith(network.cast_prefix)
        kept = id(parameter) in norms or any(part in name for part in _EMBEDDINGS)
        cast = precision == "bf16" and inside and not kept
        parameter.data = parameter.data.to(torch.bfloat16 if cast else torch.float32)


def freeze_vlm(network: FlowNetwork) -> None:
    """Freeze the VLM, so that only the action expert and its projections are trained."""
    network.vlm.requires_grad_(False)


def add_lora(network: FlowNetwork, rank: int) -> None:
    """Add low-rank adapters (alpha = rank) to the VLM's transformer projections, in place.

    The VLM's own weights are frozen; the action expert is still trained. Adapters start without an
    effect, because their second factor is zero.
    """
    add_adapters(network.vlm, rank, rank, network.lora_targets)
