"""Decode in parallel: one forward pass writes all tokens of an action chunk.

    [BOS | patches (| state) | padding, prompt | N empty slots (| </s>)]

Every token attends to all others. The logits of a token are one position before its slot, as in
next-token prediction. `official` adds the stop token at the end, and its critic reads another
position. Based on OpenVLA-OFT (Kim, Finn, Liang 2025), its code (MIT) and RLinf's (Apache-2.0).

Legend: B rows, L prompt tokens, P tokens between BOS and prompt, N = C M slots, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from rlcore_prismatic.network.actor import ActorInputs, Choose, Reading, TokenActor, Writing
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel, multimodal
from rlcore_prismatic.network.vision import MLP
from rlcore_prismatic.sizes import EOS, PrismaticSize
from torch import Tensor, nn

from rlcore_model_openvla_oft.spec import RESIDUAL_BLOCKS


class ProprioProjector(MLP):
    """Projects the robot's state `[B, S]` to one token `[B, D]`: fc2(gelu(fc1(state)))."""

    def __init__(self, size: PrismaticSize, entries: int) -> None:
        super().__init__(entries, size.width, size.width)


class ResidualBlock(nn.Module):
    """A residual block: x + relu(linear(norm(x)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ffn = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ffn(x)


class ResidualMLP(nn.Module):
    """An MLP of norm, linear, relu, residual blocks, norm, linear."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(inputs)
        self.fc1 = nn.Linear(inputs, width)
        self.mlp_resnet_blocks = nn.ModuleList(ResidualBlock(width) for _ in range(RESIDUAL_BLOCKS))
        self.layer_norm2 = nn.LayerNorm(width)
        self.fc2 = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., inputs]` to `[..., outputs]`."""
        x = F.relu(self.fc1(self.layer_norm1(x)))
        for block in self.mlp_resnet_blocks:
            x = block(x)
        return self.fc2(self.layer_norm2(x))


class ActionHead(nn.Module):
    """Regresses each action from the outputs at its M tokens; trained with an L1 loss."""

    def __init__(self, size: PrismaticSize, action_dim: int) -> None:
        super().__init__()
        self.action_dim = action_dim
        self.model = ResidualMLP(size.width * action_dim, size.width, action_dim)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map outputs `[B, C M, D]` to normalised actions `[B, C, M]`."""
        return self.model(hidden.float().unflatten(1, (-1, self.action_dim)).flatten(2))


class ParallelActor(TokenActor):
    """The actor of OpenVLA-OFT, which writes all tokens in one forward pass.

    Args:
        network, value_head, writing: see :class:`TokenActor`.
        official: use the sequence of the original code instead of RLinf's.
        proprio_projector: projector of the state; None: the state is not read.
        action_head: the L1 head for :meth:`regress`; None without one.
    """

    def __init__(
        self,
        network: PrismaticModel,
        value_head: ValueHead | None,
        writing: Writing,
        *,
        official: bool,
        proprio_projector: ProprioProjector | None = None,
        action_head: ActionHead | None = None,
    ) -> None:
        super().__init__(network, value_head, writing)
        self.official = official
        self.proprio_projector = proprio_projector
        self.action_head = action_head

    def read(self, inputs: ActorInputs, indices: Tensor) -> Reading:
        """Compute the logits of all tokens. They don't depend on the written `indices`."""
        return self._forward(inputs)

    def write(self, inputs: ActorInputs, choose: Choose) -> tuple[Tensor, Reading]:
        """Choose all tokens after one forward pass."""
        reading = self._forward(inputs)
        return choose(reading.logits, 0), reading

    def regress(self, inputs: ActorInputs) -> tuple[Tensor, Tensor]:
        """Return the normalised actions of the L1 head `[B, C, M]`, and values `[B, V]`."""
        assert self.action_head is not None, "this policy has no L1 head"
        reading = self._forward(inputs, padded_sentence=False)
        values = self.values(reading.features, inputs.elapsed)
        return self.action_head(reading.hidden), values

    def _forward(self, inputs: ActorInputs, *, padded_sentence: bool = True) -> Reading:
        """Run one forward pass of the whole network.

        Args:
            padded_sentence: whether FiLM's sentence embedding averages over padding too. The
                reference does so when it writes tokens, but its L1 head runs one row at a time,
                without padding.
        """
        network = self.network
        slots = self.writing.slots
        end = int(self.official)  # number of stop tokens
        prompt = network.embedding(inputs.tokens)
        rows = len(prompt)
        empty = prompt.new_zeros(rows, slots, prompt.shape[-1])
        stop = network.embedding(inputs.tokens.new_full((rows, end), EOS))
        sentence_mask = F.pad(inputs.token_mask | padded_sentence, (0, end), value=True)
        patches = self._patches(inputs, torch.cat([prompt, stop], dim=1), sentence_mask)
        after = inputs.token_mask.new_ones(rows, slots + end)
        embeddings, mask = multimodal(
            torch.cat([prompt, empty, stop], dim=1),
            patches,
            torch.cat([inputs.token_mask, after], dim=1),
        )
        output = network.run(embeddings, mask, causal=False)
        first = output.shape[1] - slots - end  # column of the first slot
        hidden = output[:, first - 1 : first - 1 + slots]
        place = self._critic_place(inputs, patches.shape[1], first)
        features = output[torch.arange(rows, device=place.device), place]
        return Reading(network.action_logits(hidden), features, hidden)

    def _patches(self, inputs: ActorInputs, text: Tensor, sentence_mask: Tensor) -> Tensor:
        """Return the tokens between BOS and prompt, `[B, P, D]`: patches, and the state if read.

        FiLM's sentence embedding is the mean over text tokens, including BOS and </s>.

        Args:
            inputs: the network's inputs.
            text: `[B, L (+1), D]`, embedded text.
            sentence_mask: bool `[B, L (+1)]`, the text tokens in that mean.
        """
        sentence = None
        if self.network.film:
            total = (text.float() * sentence_mask[..., None]).sum(dim=1)
            sentence = (total / sentence_mask.sum(dim=1, keepdim=True)).to(text.dtype)
        patches = self.network.image_tokens(self.network.normalized(inputs.images), sentence)
        if self.proprio_projector is None:
            return patches
        state = self.proprio_projector(inputs.proprio)[:, None].to(patches.dtype)
        return torch.cat([patches, state], dim=1)

    def _critic_place(self, inputs: ActorInputs, between: int, first: int) -> Tensor:
        """Return the column of the sequence that the critic reads, int64 `[B]`.

        In RLinf's form this is the last token of the prompt. The original reads position -N-1 of a
        sequence padded on the right. Without padding that is the first slot (slot 0). With p
        padding tokens it is slot p; for p = N it is </s>; for p > N it is a padding token, and as
        all of these have the same output, the first one is taken.

        Args:
            inputs: the network's inputs.
            between: P, number of tokens between BOS and prompt.
            first: column of the first slot.
        """
        padding = (~inputs.token_mask).sum(dim=1)
        if not self.official:
            return torch.full_like(padding, first - 1)
        return torch.where(padding <= self.writing.slots, first + padding, 1 + between)
