"""Hold a moving average of the policy's weights, with which it acts. Knows no algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.runs.learner_state import AVERAGE, TRAINED


class AveragedWeights:
    """The exponential moving average (EMA) of parameters, w' <- (1 - t) w' + t w after a step
    (averaging of iterates: Polyak and Juditsky 1992).

    Between updates the parameters hold the average, so that it acts and is saved; within an update
    they hold the weights that are trained. The first update copies both from the policy, because
    weights may be loaded after this object is made. Every rank holds an equal average: an algorithm
    that needs one is refused if processes divide the parameters.

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
            average = [parameter.detach().float().clone() for parameter in self._parameters]
            self._trained = [parameter.detach().clone() for parameter in self._parameters]
            self._average = average
        _copy(self._parameters, self._trained)
        try:
            yield
        finally:  # without an allocation, which would fail again after an error for lack of memory
            _copy(self._trained, self._parameters)
            _copy(self._parameters, self._average)

    @torch.no_grad()
    def add(self) -> None:
        """Add the current weights to the average, after a step that trained them."""
        if self._average:
            weights = [parameter.float() for parameter in self._parameters]
            torch._foreach_lerp_(self._average, weights, self._factor)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the average and the trained weights."""
        yield from self._average
        yield from self._trained

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of average and trained weights on the host, by name; empty before the first
        update."""
        return {
            f"{prefix}{index}": tensor.cpu().clone()
            for prefix, tensors in ((AVERAGE, self._average), (TRAINED, self._trained))
            for index, tensor in enumerate(tensors)
        }

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Load the result of :meth:`state_dict`; tensors of other components are ignored.

        Without them, as in a checkpoint of a run that had no average, both begin with the policy's
        weights in the next update.
        """
        names = range(len(self._parameters) if f"{AVERAGE}0" in tensors else 0)
        place = [self._parameters[index].device for index in names]
        self._average = [tensors[f"{AVERAGE}{index}"].to(place[index]).clone() for index in names]
        self._trained = [tensors[f"{TRAINED}{index}"].to(place[index]).clone() for index in names]


@torch.no_grad()
def _copy(to: Sequence[Tensor], source: Sequence[Tensor]) -> None:
    """Copy values from tensor to tensor."""
    for target, tensor in zip(to, source, strict=True):
        target.copy_(tensor)
