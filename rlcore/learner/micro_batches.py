"""Cut the samples of a rank into micro-batches, and retry with smaller ones when memory runs out.

After an out-of-memory error, the size of this and all later micro-batches is halved, the gradients
accumulated so far are dropped, and the minibatch is repeated. Gradients are sums over samples, so
the size of micro-batches changes only the order of summation.
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
    """Micro-batches of one rank.

    Attributes:
        size: the largest number of samples in a micro-batch.

    Args:
        size: the initial size.
        lockstep: whether all ranks run every forward together. Each rank then runs the same number
            of micro-batches, and no rank can halve the size alone.
    """

    def __init__(self, size: int, *, lockstep: bool) -> None:
        self.size = size
        self._lockstep = lockstep

    def split(self, count: int) -> Sequence[Tensor]:
        """Return the sample indices of each micro-batch, int64 `[at most size]`.

        Ranks in lockstep pad to the largest number of micro-batches of any rank with empty ones;
        each rank runs their forwards too, with a sample that does not count.
        """
        if not self._lockstep:
            return torch.arange(count).split(self.size) if count else ()
        pieces = torch.arange(count).split(self.size)
        missing = collectives.all_max(len(pieces)) - len(pieces)
        return [*pieces, *[torch.arange(0)] * missing]

    def retry_on_oom(self, work: Callable[[], T], undo: Callable[[], None]) -> T:
        """Run `work`, retry on out-of-memory with half the size, and return its result.

        Args:
            work: runs forwards and backwards over :meth:`split`.
            undo: drops what a failed `work` has accumulated, such as gradients.

        Raises:
            TrainingError: a single sample does not fit into memory.
            MicroBatchError: memory ran out on a rank in lockstep. The other ranks wait within the
                same forward, so this rank can't repeat it.
        """
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                memory_error = error
            self._halve(memory_error)
            del memory_error  # its traceback references the tensors of the forward
            undo()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _halve(self, error: torch.OutOfMemoryError) -> None:
        """Halve the size, rounded up; raise if that is not possible."""
        problem = f"an update does not fit into memory with {KEY}={self.size}: {error}"
        if self.size == 1:
            hint = "set actor.fsdp_config.gradient_checkpointing=true"
            raise TrainingError(problem, hint=hint) from None
        if self._lockstep:
            raise MicroBatchError(
                problem,
                hint=f"set {KEY} to {self.size // 2} or less: actor processes that shard the "
                "parameters can't choose smaller micro-batches separately; with "
                "runner.auto_resume=true the run resumes with smaller ones automatically",
            ) from None
        self.size = -(-self.size // 2)
