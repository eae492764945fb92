"""Store trained parameters as tensors by name, for checkpoints with merged adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from rlcore.contracts.errors import CheckpointError
from rlcore.learner import dtensor
from rlcore.runs.learner_state import Rows

PREFIX = "parameters."

Groups = Mapping[str, Sequence[nn.Parameter]]


def snapshot(groups: Groups) -> dict[str, Tensor]:
    """Return copies of the trained parameters on the host, such as `parameters.policy.0`.

    The names consist of group and index. Of a sharded parameter, the local rows are copied.
    """
    tensors = {}
    for name, parameter in _named(groups).items():
        rows = dtensor.local_shard(parameter.detach())
        if dtensor.is_saved_here(parameter, rows):
            tensors[name] = rows.cpu().clone()
    return tensors


def restore(groups: Groups, tensors: Mapping[str, Tensor | Rows]) -> None:
    """Load parameters from the result of :func:`snapshot`; tensors of other components are ignored.

    Args:
        tensors: whole tensors, or rows that are read lazily.

    Raises:
        CheckpointError: names or shapes differ from those of the trained parameters.
    """
    trained = _named(groups)
    stored = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    if {n: p.shape for n, p in trained.items()} != {n: t.shape for n, t in stored.items()}:
        raise CheckpointError(
            f"the {len(stored)} trained parameters of the checkpoint and the {len(trained)} of the "
            "policy differ in names or shapes",
            hint="set actor.model.is_lora and lora_rank as they were, or start a new run from its "
            "weights",
        )
    with torch.no_grad():
        for name, parameter in trained.items():
            dtensor.local_shard(parameter).copy_(dtensor.rows_for(stored[name], parameter))


def _named(groups: Groups) -> dict[str, nn.Parameter]:
    return {
        f"{PREFIX}{group}.{index}": parameter
        for group in ("policy", "value")
        for index, parameter in enumerate(groups[group])
    }
