"""Estimate activation memory per sample from layer shapes, in bytes left for the backward pass: for
`activations` of a policy's :class:`rlcore.contracts.specs.PolicySpec`. Light.

A tensor that two operations need counts once. Attention is torch's `scaled_dot_product_attention`,
which leaves no scores. Small things are left out: statistics of norms, gates, single numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4
BYTES = {"fp32": FP32, "bf16": 2}
"""Of a number, by `actor.model.precision`."""


@dataclass(frozen=True)
class Part:
    """A part of a network whose weights are trained alike.

    Attributes:
        size: bytes of a number.
        trained: whether its weights are.
        rank: of the fp32 adapters of its linear maps; 0: none.
    """

    size: int
    trained: bool = True
    rank: int = 0

    @property
    def passes_gradients(self) -> bool:
        """Whether anything is trained in it. What is not, and comes before all that is, leaves
        nothing."""
        return self.trained or self.rank > 0

    def inputs(self, tokens: int, width: int, maps: int = 1, *, there: bool = False) -> int:
        """Of `maps` linear maps that read the same `[tokens, width]`. A frozen one needs no input;
        each adapter needs its own in fp32, and what its first factor makes of it.

        Args:
            there: the input is left by the operation before anyhow.
        """
        if self.trained:
            return 0 if there else tokens * width * self.size
        if not self.rank:
            return 0
        copies = int(not there) if self.size == FP32 else maps
        return FP32 * tokens * (copies * width + maps * self.rank)

    def attention(self, queries: int, keys: int, width: int, keys_width: int) -> int:
        """Of `queries` tokens that look at `keys`: queries, keys, values and output, of all heads
        together `width` and `keys_width` numbers a token; and of the linear map behind it."""
        seen = 2 * self.size * (queries * width + keys * keys_width)
        return seen + self.inputs(queries, width, there=True)

    def rms_norm(self, tokens: int, width: int, quotient: int | None = None) -> int:
        """Its input in fp32 and, where its factors are trained, the quotient.

        Args:
            quotient: bytes of its numbers; None: as of all others.
        """
        factors = (self.size if quotient is None else quotient) if self.trained else 0
        return tokens * width * (FP32 + factors)

    def numbers(self, count: int) -> int:
        """Of an operation that leaves so many numbers, whatever is trained."""
        return count * self.size

    def tower_block(self, tokens: int, width: int, mlp: int, maps: int = 1) -> int:
        """Of a block of a vision transformer, whose norms have a bias.

        Args:
            maps: linear maps for queries, keys and values.
        """
        norms = 2 * self.numbers(tokens * width)
        attention = self.inputs(tokens, width, maps) + self.attention(tokens, tokens, width, width)
        inner = self.inputs(tokens, width) + self.numbers(tokens * mlp) + self.inputs(tokens, mlp)
        return norms + attention + inner

    def gated_layer(
        self, tokens: int, width: int, mlp: int, *, keys: int, widths: tuple[int, int], norm: int
    ) -> int:
        """Of a layer of a Llama or Gemma, whose MLP is gated.

        Args:
            keys: tokens that each looks at.
            widths: numbers a token of all queries, and of all keys.
            norm: of one of the two norms.
        """
        attention = self.inputs(tokens, width, 3) + self.attention(tokens, keys, *widths)
        inner = self.inputs(tokens, width, 2) + 3 * self.numbers(tokens * mlp)
        return 2 * norm + attention + inner + self.inputs(tokens, mlp)
