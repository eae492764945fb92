"""Cut the samples of a rank into micro-batches, and retry with smaller ones when memory runs out.

A micro-batch that does not fit is halved, as are all later ones: the gradients accumulated so far
are dropped, and the minibatch is repeated. Gradients are sums over samples, so only the order of
sums depends on the cuts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from rlcore.contracts.errors import MicroBatchError, TrainingError
from rlcore.learner import collectives

KEY = "actor.micro_batch_size"
T = TypeVar("T")


class MicroBatches:
    """The cuts of one rank.

    Attributes:
        size: samples of one, at most.

    Args:
        size: to begin with.
        lockstep: whether all ranks make every forward together. Then they make equally many, and
            none can change its own.
    """

    def __init__(self, size: int, *, lockstep: bool) -> None:
        self.size, self._asked, self._lockstep = size, size, lockstep

    @property
    def halved(self) -> bool:
        """Check whether memory has run out so far."""
        return self.size < self._asked

    def split(self, count: int) -> Sequence[Tensor]:
        """Places of `count` samples by micro-batch; at least one, if an empty one. In lockstep as
        many as the rank with the most has. An empty one stands for a sample that does not count.
        """
        pieces = torch.arange(count).split(self.size)
        if not self._lockstep:
            return pieces
        return [*pieces, *[torch.arange(0)] * (collectives.all_max(len(pieces)) - len(pieces))]

    def retry_on_oom(self, work: Callable[[], T], undo: Callable[[], None]) -> T:
        """Return the result of `work`, run in micro-batches that fit into memory.

        Args:
            work: forwards and backwards over :meth:`split`.
            undo: drops what it has added up when it breaks off.

        Raises:
            TrainingError: one sample alone does not fit.
            MicroBatchError: the ranks are in lockstep: the others wait within a forward, which this
                one can't end.
        """
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                short = error
            self._halve(short)
            del short  # it holds the tensors of the forward
            undo()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _halve(self, error: torch.OutOfMemoryError) -> None:
        problem = f"an update does not fit into memory with {KEY}={self.size}: {error}"
        if self.size == 1:
            hint = "set actor.fsdp_config.gradient_checkpointing=true"
            raise TrainingError(problem, hint=hint) from None
        if self._lockstep:
            raise MicroBatchError(
                problem,
                hint=f"set {KEY} to {self.size // 2} or less: as the actor processes divide the "
                "parameters, none can make smaller micro-batches alone; with "
                "runner.auto_resume=true the run goes on with smaller ones by itself",
            ) from None
        self.size = -(-self.size // 2)
