"""Hold a moving average of the policy's weights, with which it acts. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rlcore.learner import dtensor
from rlcore.runs.learner_state import AVERAGE, TRAINED, Rows


class AveragedWeights:
    """The exponential moving average (EMA) of parameters, w' <- (1 - t) w' + t w after a step.

    Between updates the parameters hold the average, so that it acts and is saved; within an update
    they hold the weights that are trained. The first update copies both from the policy, because
    weights may be loaded after this object is made. Copies of sharded parameters have the local
    rows.

    Args:
        parameters: the policy's parameters.
        factor: t; None: there is no average, and the trained weights act.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], factor: float | None) -> None:
        self._parameters = [] if factor is None else parameters
        self._factor = factor or 0.0
        self._average: list[Tensor] = []  # fp32: a small t would be lost in bf16
        self._trained: list[Tensor] = []

    @contextmanager
    def training(self) -> Iterator[None]:
        """Give the parameters the trained weights inside this context, and the average after it."""
        if not self._trained:
            self._trained = [local.clone() for local in self._locals()]
            self._average = [local.float().clone() for local in self._locals()]
        self._write(self._trained)
        try:
            yield
        finally:
            self._trained = [local.clone() for local in self._locals()]
            self._write(self._average)

    @torch.no_grad()
    def add(self) -> None:
        """Add the current weights to the average. To be called after a step that trains them."""
        if self._average:
            weights = [local.float() for local in self._locals()]
            torch._foreach_lerp_(self._average, weights, self._factor)

    def _locals(self) -> list[Tensor]:
        return [dtensor.local_shard(parameter.detach()) for parameter in self._parameters]

    @torch.no_grad()
    def _write(self, weights: Sequence[Tensor]) -> None:
        for local, tensor in zip(self._locals(), weights, strict=True):
            local.copy_(tensor)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the average and the trained weights."""
        yield from self._average
        yield from self._trained

    def state_dict(self) -> dict[str, Tensor]:
        """Return average and trained weights on the host, by name; of sharded parameters, the local
        rows. The result is empty before the first update."""
        return {
            f"{prefix}{index}": tensor.cpu().clone()
            for prefix, tensors in ((AVERAGE, self._average), (TRAINED, self._trained))
            for index, tensor in enumerate(tensors)
            if dtensor.is_saved_here(self._parameters[index], tensor)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor | Rows]) -> None:
        """Load the result of :meth:`state_dict`, with all rows of sharded parameters.

        Without them, as in a checkpoint of a run that had no average, both begin with the policy's
        weights in the next update.
        """
        self._average = []
        self._trained = []
        if f"{AVERAGE}0" not in tensors:
            return
        for index, parameter in enumerate(self._parameters):
            local = dtensor.local_shard(parameter.detach())
            average = torch.empty_like(local, dtype=torch.float32)
            average.copy_(dtensor.rows_for(tensors[f"{AVERAGE}{index}"], parameter))
            self._average.append(average)
            trained = torch.empty_like(local)
            trained.copy_(dtensor.rows_for(tensors[f"{TRAINED}{index}"], parameter))
            self._trained.append(trained)
