"""Define what a network must offer so that an actor can denoise actions with it.

A VLM reads cameras and prompt once, an action expert denoises actions in several steps. Which of
them reads the state, and how the expert attends to the VLM, is up to the network.

Legend: B rows, P tokens of the prefix, H actions, D their padded entries, E expert width. Time runs
from 1 (noise) to 0 (actions).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore_flow.attention import KeysValues
from rlcore_flow.heads import CriticConfig
from rlcore_flow.layers import LanguageModel, TransformerStack
from rlcore_flow.sizes import FlowSize
from rlcore_flow.vision import ConvTower, SiglipTower

# Shortest and longest period of the sine-cosine embedding of the time, which is in [0, 1].
MIN_PERIOD = 4e-3
MAX_PERIOD = 4.0


class Parts(NamedTuple):
    """Dotted names of a network's parts, as in the keys of its state dict.

    Attributes:
        vlm: vision tower and language model, with what joins them.
        vision_tower: from pixels to patches.
        language_model: layers that read image tokens and prompt.
        expert: layers that denoise actions.
    """

    vlm: str
    vision_tower: str
    language_model: str
    expert: str


class FlowNetwork(nn.Module, ABC):
    """A VLM with an action expert.

    The inputs of the prefix and its cache are each network's own types: `inputs` and `cache` below.
    A cache has a method `repeated(times)`, which returns the cache of `times` B rows.

    Attributes:
        size: sizes.
        parts: names of the parts.
        action_in_proj, action_out_proj: maps from actions to the expert and back.
        cast_prefix: prefix of the names of the parameters that bf16 applies to.
        lora_targets: regular expression of the names, inside the VLM, of the modules that get
            adapters.
    """

    size: FlowSize
    parts: ClassVar[Parts]
    action_in_proj: nn.Linear
    action_out_proj: nn.Linear
    action_time_mlp_in: nn.Linear
    action_time_mlp_out: nn.Linear
    cast_prefix: ClassVar[str]
    lora_targets: ClassVar[str]

    @property
    def vlm(self) -> nn.Module:
        """The part that `train_expert_only` freezes."""
        return self.get_submodule(self.parts.vlm)

    @property
    def vision_tower(self) -> SiglipTower | ConvTower:
        """The vision tower."""
        return cast(SiglipTower | ConvTower, self.get_submodule(self.parts.vision_tower))

    @property
    def language_model(self) -> LanguageModel:
        """The language model of the VLM."""
        return cast(LanguageModel, self.get_submodule(self.parts.language_model))

    @property
    def expert(self) -> TransformerStack:
        """The action expert."""
        return cast(TransformerStack, self.get_submodule(self.parts.expert))

    def set_checkpointing(self, enabled: bool) -> None:
        """Choose whether activations of transformer layers are recomputed in the backward pass."""
        for module in (self.vision_tower, self.language_model, self.expert):
            if isinstance(module, SiglipTower | TransformerStack):
                module.checkpointing = enabled

    def blocks(self) -> list[nn.Module]:
        """Return the transformer layers of vision tower, language model and expert."""
        return [*self.vision_tower.blocks, *self.language_model.stack, *self.expert.stack]

    @abstractmethod
    def read_prefix(
        self, inputs: Any, state: Tensor, *, need_output: bool
    ) -> tuple[list[KeysValues], Tensor | None, Tensor]:
        """Run the VLM alone.

        Args:
            inputs, state: as for :meth:`encode_prefix`.
            need_output: also compute the VLM's output.

        Returns:
            Keys and values of each layer, the VLM's output `[B, P, VLM width]` after its last norm
            or None, and the mask of existing tokens, bool `[B, P]`.
        """

    @abstractmethod
    def encode_prefix(self, inputs: Any, state: Tensor, *, need_output: bool = False) -> Any:
        """Run the VLM once, and return what the expert needs of it in every step.

        Args:
            inputs: cameras and prompt.
            state: `[B, D]`.
            need_output: also compute the VLM's output, for a critic that reads it.
        """

    @abstractmethod
    def suffix_features(
        self, cache: Any, state: Tensor, noisy_actions: Tensor, time: Tensor
    ) -> Tensor:
        """Return the expert's output at the action tokens, fp32 `[B, H, E]`.

        Args:
            cache: result of :meth:`encode_prefix`.
            state: `[B, D]`, for networks whose expert reads it.
            noisy_actions: `[B, H, D]`.
            time: `[B]`.
        """

    @abstractmethod
    def vlm_features(self, cache: Any, critic: CriticConfig) -> Tensor:
        """Return the input of a critic on the VLM's output, fp32 `[B, VLM width]`."""

    def velocity(self, features: Tensor) -> Tensor:
        """Return the velocity `[B, H, D]` for the result of :meth:`suffix_features`."""
        return self.action_out_proj(features)

    def timed_actions(self, noisy_actions: Tensor, time: Tensor) -> Tensor:
        """Return one token per noisy action, which also holds the time: `[B, H, E]`.

        h = W_out silu(W_in [action; time])
        """
        actions = self.action_in_proj(noisy_actions)
        moment = time_embedding(time, self.size.expert_width)
        moment = moment[:, None].expand_as(actions)
        mixed = self.action_time_mlp_in(torch.cat([actions, moment], dim=-1))
        return self.action_time_mlp_out(F.silu(mixed))

    def flow_matching_loss(
        self, inputs: Any, state: Tensor, actions: Tensor, noise: Tensor, time: Tensor
    ) -> Tensor:
        """Return the flow-matching loss (v - u)^2 elementwise, `[B, H, D]`.

        x_t = t * noise + (1 - t) * actions;  u = noise - actions

        Args:
            inputs: cameras and prompt.
            state: `[B, D]`.
            actions, noise: `[B, H, D]`.
            time: `[B]` in (0, 1].
        """
        t = time[:, None, None]
        noisy_actions = t * noise + (1 - t) * actions
        cache = self.encode_prefix(inputs, state)
        features = self.suffix_features(cache, state, noisy_actions, time)
        return F.mse_loss(self.velocity(features), noise - actions, reduction="none")


def time_embedding(time: Tensor, width: int) -> Tensor:
    """Return [sin, cos](2 pi t / period) `[B, width]` for log-spaced periods.

    It is computed in float64.
    """
    fraction = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64, device=time.device)
    period = MIN_PERIOD * (MAX_PERIOD / MIN_PERIOD) ** fraction
    phase = 2 * math.pi * time.double()[:, None] / period
    return torch.cat([phase.sin(), phase.cos()], dim=-1).to(time.dtype)
