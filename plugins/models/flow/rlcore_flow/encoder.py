"""Read the prefix of a frozen network, and pool its output for the critics of an algorithm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlcore_flow.network import FlowNetwork


class PrefixEncoder(nn.Module):
    """A frozen copy of a network without its action expert; see
    :class:`rlcore.contracts.protocols.EncodingPolicy`.

    Args:
        network: it is copied.
        prefix_inputs: converts stored inputs to those of the network's prefix, on a device.
    """

    def __init__(
        self,
        network: FlowNetwork,
        prefix_inputs: Callable[[Mapping[str, Tensor], torch.device], Any],
    ) -> None:
        super().__init__()
        # deepcopy takes the memo's entry for the action expert, so that it is not copied
        frozen = copy.deepcopy(network, {id(network.expert): nn.Identity()})
        self.network = frozen.requires_grad_(False)
        self._prefix_inputs = prefix_inputs

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the VLM's output over existing tokens, fp32 `[B, VLM width]`.

        Args:
            inputs: stored inputs of B rows.
        """
        device = next(self.network.parameters()).device
        prefix = self._prefix_inputs(inputs, device)
        _, output, mask = self.network.read_prefix(
            prefix, inputs["state"].to(device), need_output=True
        )
        assert output is not None
        weight = mask[..., None].float()
        return (output.float() * weight).sum(1) / weight.sum(1)
