"""SmolVLA: a VLM reads cameras, prompt and state once, an action expert denoises actions.

    images --vision, shuffle--> tokens --+
    prompt --embed------------> tokens --+--> VLM layers --> keys, values (once per decision)
    state  --project----------> token  --+                        |
    noisy actions, time -----------------> expert layers ---------+--> velocity (once per step)

Module names are LeRobot's, so that keys of the state dict equal those of its checkpoints but for
their prefix. Source: "SmolVLA: A Vision-Language-Action Model for Affordable and Efficient
Robotics" (Shukor et al. 2025); numbers agree with LeRobot's (Apache-2.0).

Legend: B rows, I cameras, T tokens per camera, L prompt tokens, P = I*T + L + 1, H actions, D their
padded entries, E expert width. Time runs from 1 (noise) to 0 (actions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from rlcore_flow.attention import (
    Attention,
    AttentionMask,
    CrossAttention,
    KeysValues,
    Rotation,
)
from rlcore_flow.heads import CriticConfig, vlm_features
from rlcore_flow.layers import LLAMA, LanguageModel, TransformerStack
from rlcore_flow.network import FlowNetwork, Parts
from rlcore_flow.vision import ConvTower, SiglipTower
from torch import Tensor, nn

from rlcore_model_smolvla.layout import EXPERT, LANGUAGE_MODEL, LORA_TARGETS, VLM, stack
from rlcore_model_smolvla.sizes import NetworkSize


@dataclass
class PrefixInputs:
    """The VLM's inputs, without the state.

    Attributes:
        images: for each of I cameras its frames, uint8 `[B, h, w, 3]` of any size.
        tokens: integers `[B, L]`.
        token_mask: bool `[B, L]`, false where padded.
    """

    images: Sequence[Tensor]
    tokens: Tensor
    token_mask: Tensor


@dataclass
class PrefixCache:
    """What a prefix gives to its suffix; read-only, shared by all denoising steps.

    Attributes:
        layers: keys and values that each layer of the expert attends to: the VLM's, or what
            cross-attention makes of them.
        mask: bool `[B, 1, H, P + H]`, what the H action tokens attend to.
        rotate: rotary embedding of the action tokens' positions after the prefix.
        cross_rotate: the same from 0 on, for cross-attention.
        output: `[B, P, VLM width]` after the VLM's last norm, if requested.
    """

    layers: list[KeysValues]
    mask: Tensor
    rotate: Rotation
    cross_rotate: Rotation
    output: Tensor | None

    def repeated(self, times: int) -> PrefixCache:
        """Return the cache of `times` B rows: the B rows one after the other, `times` times."""
        return PrefixCache(
            [layer.repeated(times) for layer in self.layers],
            self.mask.repeat(times, 1, 1, 1),
            self.rotate.repeated(times),
            self.cross_rotate.repeated(times),
            None if self.output is None else self.output.repeat(times, 1, 1),
        )


class SmolVLANetwork(FlowNetwork):
    """The network of one size, with random weights.

    Args:
        size: all shapes.
    """

    size: NetworkSize
    parts: ClassVar[Parts] = Parts(
        vlm=VLM.removesuffix(".model"),
        vision_tower=f"{VLM}.vision_model",
        language_model=LANGUAGE_MODEL,
        expert=EXPERT,
    )
    cast_prefix: ClassVar[str] = "vlm_with_expert."
    lora_targets: ClassVar[str] = LORA_TARGETS

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        self.size = size
        width = size.expert_width
        vlm = nn.ModuleDict(
            {
                "vision_model": (SiglipTower if size.vision == "siglip" else ConvTower)(size),
                "connector": Connector(size),
                "text_model": LanguageModel(
                    stack(size, size.vlm_width, size.vlm_mlp), LLAMA, size.vocab
                ),
            }
        )
        self.vlm_with_expert = nn.ModuleDict(
            {
                "vlm": nn.ModuleDict({"model": vlm}),
                "lm_expert": TransformerStack(
                    stack(size, width, size.expert_mlp), LLAMA, self._attention
                ),
            }
        )
        self.state_proj = nn.Linear(size.state_dim, size.vlm_width)
        self.action_in_proj = nn.Linear(size.action_dim, width)
        self.action_out_proj = nn.Linear(width, size.action_dim)
        self.action_time_mlp_in = nn.Linear(2 * width, width)
        self.action_time_mlp_out = nn.Linear(width, width)

    def _attention(self, layer: int) -> Attention:
        """Return the attention of a layer of the expert."""
        size = self.size
        expert = stack(size, size.expert_width, size.expert_mlp)
        if size.crosses(layer):
            return CrossAttention(expert, keys_width=size.kv_heads * size.head_dim)
        return Attention(expert)

    # -- prefix -------------------------------------------------------------------------------

    def embed_prefix(self, inputs: PrefixInputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Embed the prefix: tokens `[B, P, VLM width]` and mask bool `[B, P]`.

        Cameras come first, then the prompt, then the state. Image tokens, like those of the prompt,
        are scaled by sqrt(width).

        Args:
            inputs: cameras and prompt.
            state: `[B, state entries]`, normalised and padded.
        """
        frames = torch.cat([prepare_images(f, self.size.image_size) for f in inputs.images])
        images = self.get_submodule(f"{VLM}.connector")(self.vision_tower(frames))
        images = images * self.size.vlm_width**0.5
        cameras = len(inputs.images)
        images = images.unflatten(0, (cameras, -1)).transpose(0, 1).flatten(1, 2)
        prompt = self.language_model.embed(inputs.tokens)
        token = self.state_proj(state)[:, None]
        seen = inputs.token_mask.new_ones(len(state), images.shape[1])
        known = inputs.token_mask.new_ones(len(state), 1)
        return (
            torch.cat([images, prompt, token.to(prompt.dtype)], dim=1),
            torch.cat([seen, inputs.token_mask, known], dim=1),
        )

    def read_prefix(
        self, inputs: PrefixInputs, state: Tensor, *, need_output: bool
    ) -> tuple[list[KeysValues], Tensor | None, Tensor]:
        """Run the VLM alone; see the base class.

        Cameras and prompt do not attend to the state, which attends to all.
        """
        tokens, mask = self.embed_prefix(inputs, state)
        length = mask.shape[1]
        is_state = torch.arange(length, device=mask.device) == length - 1
        allowed = mask[:, None, None, :] & (~is_state | is_state[:, None])
        layers, output = self.language_model.encode(
            tokens, mask.cumsum(dim=1) - 1, AttentionMask(allowed), need_output=need_output
        )
        return layers, output, mask

    def encode_prefix(
        self, inputs: PrefixInputs, state: Tensor, *, need_output: bool = False
    ) -> PrefixCache:
        """Run the VLM once, and map its keys and values for the layers of cross-attention."""
        layers, output, mask = self.read_prefix(inputs, state, need_output=need_output)
        own = torch.arange(self.size.action_horizon, device=mask.device)
        cross_rotate = self.expert.rotation(own.expand(len(mask), -1))
        attended = self._suffix_mask(mask)
        return PrefixCache(
            self.expert.mapped(layers, cross_rotate, AttentionMask(attended)),
            attended,
            self.expert.rotation(mask.sum(dim=1, keepdim=True) + own),
            cross_rotate,
            output,
        )

    # -- suffix -------------------------------------------------------------------------------

    def suffix_features(
        self, cache: PrefixCache, state: Tensor, noisy_actions: Tensor, time: Tensor
    ) -> Tensor:
        """Return the expert's output at the action tokens, fp32 `[B, H, E]`.

        Args:
            cache: result of :meth:`encode_prefix`.
            state: not read: the prefix has it.
            noisy_actions: `[B, H, D]`.
            time: `[B]`.
        """
        tokens = self.timed_actions(noisy_actions, time)
        mask = AttentionMask(cache.mask)
        output = self.expert.extend(
            tokens, cache.rotate, mask, cache.layers, None, cross_rotate=cache.cross_rotate
        )
        return output.float()

    def vlm_features(self, cache: PrefixCache, critic: CriticConfig) -> Tensor:
        """Return the input of a critic on the VLM's output, fp32 `[B, VLM width]`.

        The state's token, which is the last one, counts as one of the prompt.
        """
        assert cache.output is not None
        prompt = self.size.max_token_len + 1
        return vlm_features(cache.output, critic, self.size.image_tokens, prompt)

    def _suffix_mask(self, prefix: Tensor) -> Tensor:
        """Return the mask of the suffix, bool `[B, 1, H, P + H]`, for that of a prefix `[B, P]`.

        An action attends to the existing prefix, to the actions before it and to itself.
        """
        steps = self.size.action_horizon
        block = torch.ones(steps, steps, dtype=torch.bool, device=prefix.device).tril()
        attended = prefix[:, None, :].expand(-1, steps, -1)
        return torch.cat([attended, block.expand(len(prefix), -1, -1)], dim=2)[:, None]


class Connector(nn.Module):
    """Joins squares of patches to tokens, and maps them to the language model's width."""

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        self.shuffle = size.shuffle
        joined = size.vision_width * size.shuffle**2
        projection = nn.Linear(joined, size.vlm_width, bias=False)
        self.modality_projection = nn.ModuleDict({"proj": projection})

    def forward(self, patches: Tensor) -> Tensor:
        """Map patches `[N, s s T, width]`, row by row, to tokens `[N, T, VLM width]`."""
        side = round(patches.shape[1] ** 0.5)
        rows = side // self.shuffle
        squares = patches.unflatten(1, (rows, self.shuffle, rows, self.shuffle))
        joined = squares.transpose(2, 3).flatten(3).flatten(1, 2)
        return self.modality_projection["proj"](joined)


def prepare_images(frames: Tensor, side: int) -> Tensor:
    """Resize frames without distortion, and pad them with black on the left and at the top.

    Torch's bilinear filter without antialiasing is used, as LeRobot does.

    Args:
        frames: uint8 `[B, h, w, 3]`, upright RGB.
        side: of the result, in pixels.

    Returns:
        float `[B, 3, side, side]` in [-1, 1].
    """
    images = frames.permute(0, 3, 1, 2).to(torch.float32) / 255.0
    height, width = images.shape[2:]
    ratio = max(height / side, width / side)
    inner = (int(height / ratio), int(width / ratio))
    images = F.interpolate(images, size=inner, mode="bilinear", align_corners=False)
    images = F.pad(images, (side - inner[1], 0, side - inner[0], 0), value=0.0)
    return images * 2.0 - 1.0
