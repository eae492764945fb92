"""Autoregressive decoding: each action token is read off after those before it are written.

    [BOS | patches | padding, prompt | token 1 ... token N-1]

A token sees what stands before it. The logits of the first are read at the last token of the
prompt, those of token n + 1 at token n, so that the last token is never read. The critic reads the
last token of the prompt, place -N-1 of the sequence with all tokens. Facts after OpenVLA (Kim et
al. 2024), its code (MIT) and RLinf's (Apache-2.0).

Legend: B rows, L prompt tokens, P patches, N = C M action tokens, D width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rlcore_prismatic.network import PrismaticModel, ValueHead, multimodal
from rlcore_prismatic.network.actor import ActorInputs, Choose, Reading, TokenActor
from torch import Tensor
from transformers.cache_utils import StaticCache


class AutoregressiveActor(TokenActor):
    """OpenVLA.

    Args:
        network, value_head, temperature, top_k, detach_critic_input, idle: see
            :class:`TokenActor`.
        slots: N, tokens of a decision.
    """

    def __init__(
        self,
        network: PrismaticModel,
        value_head: ValueHead | None,
        *,
        slots: int,
        temperature: float,
        top_k: int,
        detach_critic_input: bool = False,
        idle: Sequence[int] = (),
    ) -> None:
        super().__init__(
            network,
            value_head,
            temperature=temperature,
            top_k=top_k,
            detach_critic_input=detach_critic_input,
            idle=idle,
        )
        self.slots = slots

    def read(self, inputs: ActorInputs, indices: Tensor) -> Reading:
        """Everything in one forward, as all tokens are known."""
        prompt, mask = self._prompt(inputs)
        embeddings = torch.cat([prompt, self._embedded(indices[:, :-1])], dim=1)
        output = self.network.run(embeddings, mask, causal=True)
        return self._reading(output[:, prompt.shape[1] - 1 :])

    def write(self, inputs: ActorInputs, choose: Choose) -> tuple[Tensor, Reading]:
        """Token by token, over keys and values of those before. Their cache has its full length
        from the start, so that all steps after the prompt have equal shapes."""
        embeddings, mask = self._prompt(inputs)
        cache = StaticCache(self.network.language_model.config, max_cache_len=mask.shape[1])
        start, indices, outputs = 0, [], []
        for number in range(self.slots):
            output = self.network.run(embeddings, mask, causal=True, cache=cache, start=start)
            outputs.append(output[:, -1:])
            indices.append(choose(self.network.action_logits(outputs[-1]), number))
            start += embeddings.shape[1]
            embeddings = self._embedded(indices[-1])
        return torch.cat(indices, dim=1), self._reading(torch.cat(outputs, dim=1))

    def _prompt(self, inputs: ActorInputs) -> tuple[Tensor, Tensor]:
        """Embeddings up to the prompt's end `[B, P + L, D]`, and the mask of the whole sequence
        that is read, `[B, P + L + N - 1]`."""
        text = self.network.embedding(inputs.tokens)
        patches = self.network.image_tokens(self.pixels(inputs))
        embeddings, mask = multimodal(text, patches, inputs.token_mask)
        return embeddings, torch.cat([mask, mask.new_ones(len(mask), self.slots - 1)], dim=1)

    def _embedded(self, indices: Tensor) -> Tensor:
        """Written tokens `[B, n]` as the network reads them, `[B, n, D]`."""
        return self.network.embedding(indices + self.network.size.first_action)

    def _reading(self, hidden: Tensor) -> Reading:
        """From the outputs at the prompt's last token and all written ones but the last."""
        return Reading(self.network.action_logits(hidden), hidden[:, 0], hidden)
