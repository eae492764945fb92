"""Decode autoregressively: each action token depends on the tokens before it.

    [BOS | patches | padding, prompt | token 1 ... token N-1]

A token attends to everything before it. The logits of the first token are at the last token of the
prompt, those of token n + 1 at token n, so the last token is never an input. The critic reads the
last token of the prompt, position -N-1 of the whole sequence. Based on OpenVLA (Kim et al. 2024),
its code (MIT) and RLinf's (Apache-2.0).

Legend: B rows, L prompt tokens, P patches, N = C M action tokens, D width.
"""

from __future__ import annotations

import torch
from rlcore_prismatic.network.actor import ActorInputs, Choose, Reading, TokenActor
from rlcore_prismatic.network.model import multimodal
from torch import Tensor
from transformers.cache_utils import StaticCache


class AutoregressiveActor(TokenActor):
    """The actor of OpenVLA, which writes one token per forward pass."""

    def read(self, inputs: ActorInputs, indices: Tensor) -> Reading:
        """Compute the logits of all tokens in one forward pass, as all tokens are known."""
        prompt, mask = self._prompt(inputs)
        embeddings = torch.cat([prompt, self._embedded(indices[:, :-1])], dim=1)
        output = self.network.run(embeddings, mask, causal=True)
        return self._reading(output[:, prompt.shape[1] - 1 :])

    def write(self, inputs: ActorInputs, choose: Choose) -> tuple[Tensor, Reading]:
        """Write token by token, with a cache of the keys and values of the tokens before.

        The cache has its full length from the start, so that all steps after the prompt have the
        same shapes.
        """
        embeddings, mask = self._prompt(inputs)
        cache = StaticCache(self.network.language_model.config, max_cache_len=mask.shape[1])
        start = 0
        indices: list[Tensor] = []
        outputs: list[Tensor] = []
        for number in range(self.writing.slots):
            output = self.network.run(embeddings, mask, causal=True, cache=cache, start=start)
            outputs.append(output[:, -1:])
            indices.append(choose(self.network.action_logits(outputs[-1]), number))
            start += embeddings.shape[1]
            embeddings = self._embedded(indices[-1])
        return torch.cat(indices, dim=1), self._reading(torch.cat(outputs, dim=1))

    def _prompt(self, inputs: ActorInputs) -> tuple[Tensor, Tensor]:
        """Embed images and prompt.

        Returns:
            Embeddings `[B, P + L, D]`, and the mask of the whole input `[B, P + L + N - 1]`, which
            includes the action tokens.
        """
        text = self.network.embedding(inputs.tokens)
        patches = self.network.image_tokens(self.network.normalized(inputs.images))
        embeddings, mask = multimodal(text, patches, inputs.token_mask)
        after = mask.new_ones(len(mask), self.writing.slots - 1)
        return embeddings, torch.cat([mask, after], dim=1)

    def _embedded(self, indices: Tensor) -> Tensor:
        """Embed written tokens `[B, n]`: `[B, n, D]`."""
        return self.network.embedding(indices + self.network.size.first_action)

    def _reading(self, hidden: Tensor) -> Reading:
        """Build the reading from the outputs `[B, N, D]` that predict the N tokens.

        These are at the prompt's last token and at all action tokens except the last.
        """
        return Reading(self.network.action_logits(hidden), hidden[:, 0], hidden)
