"""Estimate activation memory per sample from layer shapes.

The estimates are for `activations` of a policy's :class:`rlcore.contracts.specs.PolicySpec`. They
count the bytes of the tensors that autograd saves for the backward pass. A tensor that two
operations save counts once. Attention is torch's `scaled_dot_product_attention`, which saves no
scores. Small tensors are not counted: statistics of norms, gates, scalars. Imports no tensor
library.
"""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4
BYTES = {"fp32": FP32, "bf16": 2}
"""Bytes of a number, by `actor.model.precision`."""


@dataclass(frozen=True)
class Part:
    """A part of a network whose weights are either all trained or all frozen.

    The methods return the bytes that operations of the part save for the backward pass.

    Attributes:
        size: bytes of a number.
        trained: whether the weights, without adapters, are trained.
        rank: rank of the fp32 adapters of its linear maps; 0: no adapters.
    """

    size: int
    trained: bool = True
    rank: int = 0

    @property
    def passes_gradients(self) -> bool:
        """Return whether the part has trained weights or adapters.

        If not, and nothing before the part is trained either, the part saves no activations.
        """
        return self.trained or self.rank > 0

    def inputs(self, tokens: int, width: int, maps: int = 1, *, saved: bool = False) -> int:
        """Return the bytes that `maps` linear maps of the same input `[tokens, width]` save.

        A trained map saves its input. A frozen map saves nothing; its adapter saves the input in
        fp32 (shared by the maps if the input is fp32 already) and the output of its first factor.

        Args:
            saved: whether the previous operation saves the input already.
        """
        if self.trained:
            return 0 if saved else tokens * width * self.size
        if not self.rank:
            return 0
        copies = int(not saved) if self.size == FP32 else maps
        return FP32 * tokens * (copies * width + maps * self.rank)

    def attention(self, queries: int, keys: int, width: int, keys_width: int) -> int:
        """Return the bytes of attention and of the linear map after it.

        Attention saves queries, keys, values and output.

        Args:
            queries: number of tokens that attend.
            keys: number of tokens that are attended to.
            width: numbers per token of the queries of all heads; also of the output.
            keys_width: numbers per token of the keys of all heads; also of the values.
        """
        operands = 2 * self.size * (queries * width + keys * keys_width)
        return operands + self.inputs(queries, width, saved=True)

    def rms_norm(self, tokens: int, width: int, quotient: int | None = None) -> int:
        """Return the bytes of an RMS norm: its input in fp32, and x / rms(x) if it is trained.

        Args:
            quotient: bytes of a number of x / rms(x); None: :attr:`size`.
        """
        factors = (self.size if quotient is None else quotient) if self.trained else 0
        return tokens * width * (FP32 + factors)

    def numbers(self, count: int) -> int:
        """Return the bytes of an operation that saves `count` numbers, whether trained or not."""
        return count * self.size

    def tower_block(self, tokens: int, width: int, mlp: int, maps: int = 1) -> int:
        """Return the bytes of a block of a vision transformer with layer norms.

        Args:
            maps: number of linear maps that compute queries, keys and values: 1 or 3.
        """
        norms = 2 * self.numbers(tokens * width)
        attention = self.inputs(tokens, width, maps) + self.attention(tokens, tokens, width, width)
        inner = self.inputs(tokens, width) + self.numbers(tokens * mlp) + self.inputs(tokens, mlp)
        return norms + attention + inner

    def gated_layer(
        self, tokens: int, width: int, mlp: int, *, keys: int, widths: tuple[int, int], norm: int
    ) -> int:
        """Return the bytes of a layer of a Llama or Gemma, whose MLP is gated.

        Args:
            keys: number of tokens that each token attends to.
            widths: numbers per token of the queries of all heads, and of the keys of all heads.
            norm: bytes of one of the two norms.
        """
        attention = self.inputs(tokens, width, 3) + self.attention(tokens, keys, *widths)
        inner = self.inputs(tokens, width, 2) + 3 * self.numbers(tokens * mlp)
        return 2 * norm + attention + inner + self.inputs(tokens, mlp)
