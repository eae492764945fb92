"""Define names and shapes of the RL heads' weights. No tensor library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rlcore_flow.settings import FlowSettings, reads_vlm
from rlcore_flow.shapes import linear_shapes
from rlcore_flow.sizes import FlowSize

VALUE_HEAD = "value_head"
NOISE_HEAD = "noise_head"
HEADS_FILE = "rl_heads.safetensors"
NOISE_HIDDEN = (128, 64)
"""Widths of the hidden layers of the noise head."""


def policy_head_shapes(
    settings: FlowSettings, size: FlowSize, critic_hidden: Sequence[int], values: int
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of the parameters of critic and noise head, if the policy has them.

    Args:
        settings: exploration and critic.
        size: of the network.
        critic_hidden: widths of the critic's hidden layers.
        values: V, values per decision; 0: there is no critic.
    """
    widths: dict[str, list[int]] = {}
    if values:
        width = size.vlm_width if reads_vlm(settings, values) else size.expert_width
        widths[VALUE_HEAD] = [width + int(settings.critic_elapsed), *critic_hidden, values]
    if settings.noise_method == "flow_noise":
        widths[NOISE_HEAD] = [size.expert_width, *NOISE_HIDDEN, size.action_dim]
    return {head: head_shapes(head, head_widths) for head, head_widths in widths.items()}


def heads_trained_with(settings: FlowSettings, *, has_critic: bool) -> dict[str, dict[str, Any]]:
    """Return, for each head of a policy, the settings of its inputs and outputs."""
    heads: dict[str, dict[str, Any]] = {}
    if has_critic:
        heads[VALUE_HEAD] = {"value_after_vlm": settings.value_after_vlm}
        if settings.value_after_vlm:
            heads[VALUE_HEAD]["value_vlm_mode"] = settings.value_vlm_mode
    if settings.noise_method == "flow_noise":
        heads[NOISE_HEAD] = {"noise_logvar_range": list(settings.noise_logvar_range)}
    return heads


def head_shapes(head: str, widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a head, an MLP with activations between its linear layers.

    Args:
        head: :data:`VALUE_HEAD` or :data:`NOISE_HEAD`.
        widths: of the input, the hidden layers and the output.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes |= dict(linear_shapes(f"{head}.mlp.{2 * layer}", inputs, outputs))
    return shapes
