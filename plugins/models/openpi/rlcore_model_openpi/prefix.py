"""Convert stored inputs to those of the VLM.

Legend: B rows, I cameras, L prompt tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcore_model_openpi.network.pi0 import PrefixInputs


def prefix_inputs(
    inputs: Mapping[str, Tensor], device: torch.device, *, masked_images: int
) -> PrefixInputs:
    """Convert stored inputs of B rows to the VLM's, on the device.

    Args:
        inputs: `images` uint8 `[B, I, h, w, 3]`, `tokens` integers `[B, L]` and `token_mask` bool
            `[B, L]`.
        device: of the network.
        masked_images: cameras that are added, black and masked.
    """
    # uint8 [B, I, h, w, 3] -> float [B, I, 3, h, w] in [-1, 1]
    pixels = inputs["images"].to(device).permute(0, 1, 4, 2, 3)
    images = pixels.to(torch.float32) / 255.0 * 2.0 - 1.0
    image_masks = torch.ones(images.shape[:2], dtype=torch.bool, device=device)
    if masked_images:
        rows = len(images)
        black = images.new_full((rows, masked_images, *images.shape[2:]), -1.0)
        images = torch.cat([images, black], dim=1)
        image_masks = torch.cat([image_masks, image_masks.new_zeros(rows, masked_images)], dim=1)
    return PrefixInputs(
        images=images,
        image_masks=image_masks,
        tokens=inputs["tokens"].to(device, torch.int64),
        token_mask=inputs["token_mask"].to(device),
    )
