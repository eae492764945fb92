"""π0 and π0.5: a VLM reads cameras and prompt once, an action expert denoises actions.

    images --vision--> tokens --+--> VLM layers --> keys, values (computed once per decision)
    prompt --embed---> tokens --+                        |
    state (π0), noisy actions, time --> expert layers ---+--> velocity    (once per step)

Module names are openpi's, so that keys of the state dict equal those of its checkpoints. Based on
openpi (Apache-2.0) and "π0: A Vision-Language-Action Flow Model" (Black et al. 2024). Exploration,
critics, tokenizers and normalisation are handled elsewhere.

Legend: B rows, I cameras, T tokens per camera, L prompt tokens, P = I*T + L, H actions, D their
padded entries, E expert width, S suffix tokens. Time runs from 1 (noise) to 0 (actions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from rlcore_flow.attention import AttentionMask, KeysValues, Rotation
from rlcore_flow.heads import CriticConfig, vlm_features
from rlcore_flow.layers import ADAPTIVE_GEMMA, GEMMA, LanguageModel, TransformerStack
from rlcore_flow.network import FlowNetwork, Parts, time_embedding
from rlcore_flow.vision import ConvTower, SiglipTower
from torch import Tensor, nn

from rlcore_model_openpi.layout import EXPERT, LANGUAGE_MODEL, LORA_TARGETS, VLM, stack
from rlcore_model_openpi.sizes import NetworkSize


@dataclass
class PrefixInputs:
    """The VLM's inputs.

    Attributes:
        images: float `[B, I, 3, h, w]` in [-1, 1].
        image_masks: bool `[B, I]`, false where a camera is missing.
        tokens: integers `[B, L]`.
        token_mask: bool `[B, L]`, false where padded.
    """

    images: Tensor
    image_masks: Tensor
    tokens: Tensor
    token_mask: Tensor


@dataclass
class PrefixCache:
    """What a prefix gives to its suffix; read-only, shared by all denoising steps.

    Attributes:
        layers: the VLM's keys and values per layer.
        mask: bool `[B, 1, S, P + S]`, what the suffix's S tokens attend to.
        rotate: rotary embedding of the suffix's positions.
        prompt: L, the last L tokens are the prompt's.
        output: `[B, P, VLM width]` after the final norm, if requested. Rows of padding have the
            same values as in openpi (see AttentionMask).
    """

    layers: list[KeysValues]
    mask: Tensor
    rotate: Rotation
    prompt: int
    output: Tensor | None

    def repeated(self, times: int) -> PrefixCache:
        """Return the cache of `times` B rows: the B rows one after the other, `times` times."""
        layers = [layer.repeated(times) for layer in self.layers]
        mask = self.mask.repeat(times, 1, 1, 1)
        output = None if self.output is None else self.output.repeat(times, 1, 1)
        return PrefixCache(layers, mask, self.rotate.repeated(times), self.prompt, output)


class PiNetwork(FlowNetwork):
    """The network of one size, with random weights.

    Args:
        size: all shapes; `size.pi05` picks the generation.
    """

    size: NetworkSize
    parts: ClassVar[Parts] = Parts(
        vlm=VLM.removesuffix(".model"),
        vision_tower=f"{VLM}.vision_tower",
        language_model=LANGUAGE_MODEL,
        expert=EXPERT,
    )
    cast_prefix: ClassVar[str] = "paligemma_with_expert."
    lora_targets: ClassVar[str] = LORA_TARGETS

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        self.size = size
        width = size.expert_width
        vlm = {
            "vision_tower": (SiglipTower if size.vision == "siglip" else ConvTower)(size),
            "multi_modal_projector": nn.ModuleDict(
                {"linear": nn.Linear(size.vision_width, size.vlm_width)}
            ),
            "language_model": LanguageModel(
                stack(size, size.vlm_width, size.vlm_mlp), GEMMA, size.vocab
            ),
        }
        style = ADAPTIVE_GEMMA if size.pi05 else GEMMA
        expert = TransformerStack(stack(size, width, size.expert_mlp), style)
        self.paligemma_with_expert = nn.ModuleDict(
            {
                "paligemma": nn.ModuleDict({"model": nn.ModuleDict(vlm)}),
                "gemma_expert": nn.ModuleDict({"model": expert}),
            }
        )
        self.action_in_proj = nn.Linear(size.action_dim, width)
        self.action_out_proj = nn.Linear(width, size.action_dim)
        if size.pi05:
            self.time_mlp_in = nn.Linear(width, width)
            self.time_mlp_out = nn.Linear(width, width)
        else:
            self.state_proj = nn.Linear(size.action_dim, width)
            self.action_time_mlp_in = nn.Linear(2 * width, width)
            self.action_time_mlp_out = nn.Linear(width, width)

    # -- prefix -------------------------------------------------------------------------------

    def embed_prefix(self, inputs: PrefixInputs) -> tuple[Tensor, Tensor]:
        """Embed the prefix: tokens `[B, P, VLM width]`, cameras first, and mask bool `[B, P]`."""
        cameras = inputs.images.shape[1]
        images = self.vision_tower(inputs.images.flatten(0, 1))
        images = self.get_submodule(f"{VLM}.multi_modal_projector.linear")(images)
        images = images.unflatten(0, (-1, cameras)).flatten(1, 2)
        prompt = self.language_model.embed(inputs.tokens)
        image_mask = inputs.image_masks.repeat_interleave(self.size.image_tokens, dim=1)
        return (
            torch.cat([images, prompt], dim=1),
            torch.cat([image_mask, inputs.token_mask], dim=1),
        )

    def read_prefix(
        self, inputs: PrefixInputs, state: Tensor, *, need_output: bool
    ) -> tuple[list[KeysValues], Tensor | None, Tensor]:
        """Run the VLM alone; existing tokens attend to all existing tokens. See the base class.

        Args:
            inputs: cameras and prompt.
            state: not read here: π0's expert reads it, and π0.5 has it in the prompt or not at all.
            need_output: also compute the VLM's output.
        """
        tokens, mask = self.embed_prefix(inputs)
        padding = ~mask[:, None, :, None]
        allowed = AttentionMask(mask[:, None, None, :] | padding, uniform=padding)
        layers, output = self.language_model.encode(
            tokens, mask.cumsum(dim=1) - 1, allowed, need_output=need_output
        )
        return layers, output, mask

    def encode_prefix(
        self, inputs: PrefixInputs, state: Tensor, *, need_output: bool = False
    ) -> PrefixCache:
        """Run the VLM once; see :meth:`read_prefix`."""
        layers, output, mask = self.read_prefix(inputs, state, need_output=need_output)
        own = torch.arange(self.size.suffix_len, device=mask.device)
        rotate = self.expert.rotation(mask.sum(dim=1, keepdim=True) + own)
        return PrefixCache(layers, self._suffix_mask(mask), rotate, inputs.tokens.shape[1], output)

    # -- suffix -------------------------------------------------------------------------------

    def embed_suffix(
        self, state: Tensor, noisy_actions: Tensor, time: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the expert's tokens `[B, H (+1), E]`, and for π0.5 its norms' condition `[B, E]`.

        Args:
            state: `[B, D]`; π0.5 does not read it (there it may be in the prompt).
            noisy_actions: `[B, H, D]`.
            time: `[B]`.
        """
        if self.size.pi05:
            moment = time_embedding(time, self.size.expert_width)
            condition = F.silu(self.time_mlp_out(F.silu(self.time_mlp_in(moment))))
            return self.action_in_proj(noisy_actions), condition
        tokens = self.timed_actions(noisy_actions, time)
        return torch.cat([self.state_proj(state)[:, None], tokens], dim=1), None

    def suffix_features(
        self, cache: PrefixCache, state: Tensor, noisy_actions: Tensor, time: Tensor
    ) -> Tensor:
        """Return the expert's output at the action tokens, fp32 `[B, H, E]`."""
        tokens, condition = self.embed_suffix(state, noisy_actions, time)
        mask = AttentionMask(cache.mask)
        output = self.expert.extend(tokens, cache.rotate, mask, cache.layers, condition)
        return output[:, -self.size.action_horizon :].float()

    def vlm_features(self, cache: PrefixCache, critic: CriticConfig) -> Tensor:
        """Return the input of a critic on the VLM's output, fp32 `[B, VLM width]`."""
        assert cache.output is not None
        return vlm_features(cache.output, critic, self.size.image_tokens, cache.prompt)

    def _suffix_mask(self, prefix: Tensor) -> Tensor:
        """Return the mask of the suffix, bool `[B, 1, S, P + S]`, for that of a prefix `[B, P]`.

        Its tokens attend to the existing prefix and each other; π0's state attends to no action.
        """
        block = torch.ones(
            self.size.suffix_len, self.size.suffix_len, dtype=torch.bool, device=prefix.device
        )
        if not self.size.pi05:
            block[0, 1:] = False
        rows = len(prefix)
        attended = prefix[:, None, :].expand(rows, self.size.suffix_len, -1)
        return torch.cat([attended, block.expand(rows, -1, -1)], dim=2)[:, None]
