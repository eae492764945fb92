"""Read the prefix: convert stored inputs to the VLM's, and pool its output for critics.

Legend: B rows, I cameras, L prompt tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs


class PrefixEncoder(nn.Module):
    """A frozen copy of the network without its action expert; see
    :class:`rlcore.contracts.protocols.EncodingPolicy`.

    Args:
        network: it is copied.
        masked_images: cameras of the network that the env does not have.
    """

    def __init__(self, network: PiNetwork, masked_images: int) -> None:
        super().__init__()
        # deepcopy takes the memo's entry for the action expert, so that it is not copied
        frozen = copy.deepcopy(network, {id(network.expert): nn.Identity()})
        self.network = frozen.requires_grad_(False)
        self._masked_images = masked_images

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the VLM's output over existing tokens, fp32 `[B, VLM width]`."""
        device = next(self.network.parameters()).device
        prefix = prefix_inputs(inputs, self._masked_images, device)
        _, output, mask = self.network.read_prefix(prefix, need_output=True)
        assert output is not None
        weight = mask[..., None].float()
        return (output.float() * weight).sum(1) / weight.sum(1)


def prefix_inputs(
    inputs: Mapping[str, Tensor], masked_images: int, device: torch.device
) -> PrefixInputs:
    """Convert stored inputs of B rows to the VLM's, on the device.

    Args:
        inputs: `images` uint8 `[B, I, h, w, 3]`, `tokens` integers `[B, L]` and `token_mask` bool
            `[B, L]`.
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
