"""Hold the reference weights: those at the start of training. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rlcore.learner import dtensor
from rlcore.runs.learner_state import REFERENCE, Rows


class ReferenceWeights:
    """A copy of parameters' current weights; of sharded parameters, of the local rows.

    Args:
        parameters: the policy's parameters; empty if the algorithm needs no reference weights.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self.tensors = [dtensor.local_shard(parameter.detach()).clone() for parameter in parameters]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the parameters the reference weights inside this context."""
        try:
            self._swap()
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Swap current and reference weights, one parameter at a time.

        The values are copied instead of exchanging tensors, because FSDP gathers sharded parameters
        from their present memory.
        """
        for parameter, reference in zip(self._parameters, self.tensors, strict=True):
            local = dtensor.local_shard(parameter)
            current = local.clone()
            local.copy_(reference)
            reference.copy_(current)

    def state_dict(self) -> dict[str, Tensor]:
        """Return reference weights on the host, by name; of sharded parameters, the local rows."""
        pairs = zip(self._parameters, self.tensors, strict=True)
        return {
            f"{REFERENCE}{index}": tensor.cpu().clone()
            for index, (parameter, tensor) in enumerate(pairs)
            if dtensor.is_saved_here(parameter, tensor)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor | Rows]) -> None:
        """Load the result of :meth:`state_dict`, with all rows of sharded parameters.

        A checkpoint without reference weights is refused earlier, by
        :mod:`rlcore.training.fixed_keys`.
        """
        for index, (parameter, reference) in enumerate(
            zip(self._parameters, self.tensors, strict=True)
        ):
            reference.copy_(dtensor.rows_for(tensors[f"{REFERENCE}{index}"], parameter))
