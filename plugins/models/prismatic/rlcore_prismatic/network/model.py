"""The Prismatic vision-language model: [BOS | patches | text] through a Llama.

Module names are those of OpenVLA's checkpoints. The Llama is that of transformers. We build its
mask, as OpenVLA-OFT attends in both directions and transformers would make it causal. Knows nothing
of actions, tokenizers and critics.

Legend: B rows, I images, T patches per image, L text tokens, Q queries, K keys, D width.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRotaryEmbedding

from rlcore_prismatic.layout import projector_widths
from rlcore_prismatic.network.adapt import output_entries
from rlcore_prismatic.network.vision import FilmVisionBackbone, VisionBackbone
from rlcore_prismatic.sizes import BOS, EOS, PrismaticSize


class Projector(nn.Module):
    """Maps patch features to the Llama's width, by three layers for two towers and two for one.

    Exact GELU is between the layers.
    """

    def __init__(self, size: PrismaticSize) -> None:
        super().__init__()
        layers = [nn.Linear(a, b) for a, b in pairwise(projector_widths(size))]
        for number, layer in enumerate(layers, start=1):
            self.add_module(f"fc{number}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., vision width]` to `[..., D]`."""
        for number, layer in enumerate(self.children()):
            x = layer(F.gelu(x) if number else x)
        return x


class PrismaticModel(nn.Module):
    """The network of one size, with random weights.

    Args:
        size: all shapes.
        film: whether the sentence modulates the vision towers.
    """

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(self, size: PrismaticSize, *, film: bool = False) -> None:
        super().__init__()
        self.size = size
        self.film = film
        self.vision_backbone = FilmVisionBackbone(size) if film else VisionBackbone(size)
        self.projector = Projector(size)
        self.language_model = LlamaForCausalLM(llama_config(size))
        self._set_pixel_buffers()

    # -- parts ----------------------------------------------------------------------------------

    @property
    def embedding(self) -> nn.Module:
        """Token ids `[..., L]` -> `[..., L, D]`."""
        return self.language_model.model.embed_tokens

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which the network computes."""
        return self.language_model.model.norm.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.language_model.model.norm.weight.device

    def normalized(self, images: Tensor) -> Tensor:
        """Convert uint8 `[B, I, h, w, 3]` to pixels `[B, I, 3 towers, h, w]`, the towers' input."""
        colours = images.permute(0, 1, 4, 2, 3).float() / 255.0
        stacked = colours.repeat(1, 1, len(self.size.towers), 1, 1)
        return (stacked - self.pixel_mean) / self.pixel_std

    def image_tokens(self, pixels: Tensor, sentence: Tensor | None = None) -> Tensor:
        """Encode pixels `[B, I, 3 towers, h, w]` as tokens `[B, I T, D]`.

        Args:
            sentence: mean embedding of the text `[B, D]`, for FiLM.
        """
        features = self.vision_backbone(pixels.to(self.dtype), sentence)
        return self.projector(features)

    def run(
        self,
        embeddings: Tensor,
        mask: Tensor,
        *,
        causal: bool,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Tensor:
        """Return the Llama's output after its final norm, `[B, Q, D]`.

        Positions count the existing tokens. Padding is at position 1, as in the reference, and
        attends like other tokens, so that no row of the mask is empty.

        Args:
            embeddings: `[B, Q, D]`.
            mask: bool `[B, K]`, keys that exist.
            causal: whether a query attends only to the keys up to its own.
            cache: of K keys and values, filled up to the queries; those of the queries are added.
            start: column of the first query among the keys.
        """
        queries = embeddings.shape[1]
        keys = mask.shape[1]
        columns = slice(start, start + queries)
        positions = (mask.long().cumsum(dim=1) - 1).masked_fill(~mask, 1)[:, columns]
        attended = mask[:, None, None, :]
        if causal:
            order = torch.arange(keys, device=mask.device)
            own = order[columns, None]
            # padding attends to itself, because its row could be empty otherwise
            attended = (attended & (order <= own)) | (order == own)
        bias = torch.zeros(attended.shape, dtype=embeddings.dtype, device=mask.device)
        bias = bias.masked_fill(~attended, torch.finfo(embeddings.dtype).min)
        # its layers recompute activations only in training mode, in which they drop the cache
        self.language_model.train(torch.is_grad_enabled())
        output = self.language_model.model(
            None,
            bias.expand(-1, -1, queries, -1),
            positions,
            cache,  # by position, as its name differs between the versions of transformers
            inputs_embeds=embeddings,
            use_cache=cache is not None,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def action_logits(self, hidden: Tensor) -> Tensor:
        """Compute the logits of the action tokens, fp32 `[..., bins]`, from output `[..., D]`."""
        rows = slice(self.size.first_action, self.size.vocab)
        return output_entries(self.language_model.lm_head, hidden, rows).float()

    def set_checkpointing(self, enabled: bool) -> None:
        """Recompute the activations of transformer blocks in the backward pass, to save memory."""
        for tower in self.vision_backbone.towers:
            tower.checkpointing = enabled
        with warnings.catch_warnings():
            # newer versions of transformers 5 have another name for it, older ones only this one
            warnings.simplefilter("ignore", FutureWarning)
            if enabled:
                self.language_model.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                self.language_model.gradient_checkpointing_disable()

    def blocks(self) -> list[nn.Module]:
        """Return the transformer blocks of towers and Llama."""
        towers = [block for tower in self.vision_backbone.towers for block in tower.blocks]
        return [*towers, *self.language_model.model.layers]

    def fill_buffers(self) -> None:
        """Compute the buffers that no file holds, for a network built on the meta device."""
        rotary = LlamaRotaryEmbedding(self.language_model.config)
        self.language_model.model.rotary_emb = rotary
        self._set_pixel_buffers()

    def _set_pixel_buffers(self) -> None:
        towers = self.size.towers
        for name, values in (
            ("pixel_mean", [value for tower in towers for value in tower.mean]),
            ("pixel_std", [value for tower in towers for value in tower.std]),
        ):
            self.register_buffer(name, torch.tensor(values).view(1, 1, -1, 1, 1), persistent=False)


def multimodal(text: Tensor, patches: Tensor, text_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Join text and patches to one sequence [BOS | patches | rest of the text].

    Args:
        text: `[B, L, D]`, BOS first.
        patches: `[B, P, D]`.
        text_mask: bool `[B, L]`.

    Returns:
        Embeddings `[B, P + L, D]` and mask `[B, P + L]`.
    """
    patch_mask = text_mask.new_ones(patches.shape[:2])
    return (
        torch.cat([text[:, :1], patches.to(text.dtype), text[:, 1:]], dim=1),
        torch.cat([text_mask[:, :1], patch_mask, text_mask[:, 1:]], dim=1),
    )


def llama_config(size: PrismaticSize) -> LlamaConfig:
    """Return the settings of the Llama; the others have their defaults, as in OpenVLA."""
    return LlamaConfig(
        vocab_size=size.rows,
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=size.depth,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        pad_token_id=size.pad,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
