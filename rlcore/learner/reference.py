"""Keep the weights that training began with. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rlcore.learner import dtensor
from rlcore.run_folder.learner_state import REFERENCE, Rows


class ReferenceWeights:
    """Those of some parameters as they are now; of sharded ones the rows that are held here.

    Args:
        parameters: none where nobody needs them.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self.tensors = [dtensor.local_shard(one.detach()).clone() for one in parameters]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The parameters have these weights meanwhile."""
        try:
            self._swap()
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Let present and reference weights change places, in place and one by one: what gathers
        sharded parameters looks at their memory."""
        for parameter, reference in zip(self._parameters, self.tensors, strict=True):
            held = dtensor.local_shard(parameter)
            present = held.clone()
            held.copy_(reference)
            reference.copy_(present)

    def state_dict(self) -> dict[str, Tensor]:
        """Weights by name; of sharded parameters the rows that are held here."""
        pairs = zip(self._parameters, self.tensors, strict=True)
        return {
            f"{REFERENCE}{index}": tensor.cpu().clone()
            for index, (parameter, tensor) in enumerate(pairs)
            if dtensor.is_saved_here(parameter, tensor)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor | Rows]) -> None:
        """Take up the state that :meth:`state_dict` gave. A checkpoint without any is refused
        before (:mod:`rlcore.training.fixed_keys`)."""
        for index, (parameter, reference) in enumerate(
            zip(self._parameters, self.tensors, strict=True)
        ):
            reference.copy_(dtensor.rows_for(tensors[f"{REFERENCE}{index}"], parameter))
