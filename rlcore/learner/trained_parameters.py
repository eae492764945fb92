"""Store trained parameters as tensors by name, for checkpoints with merged adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from rlcore.contracts.errors import CheckpointError
from rlcore.learner import dtensor
from rlcore.run_folder.learner_state import Rows

PREFIX = "parameters."

Groups = Mapping[str, Sequence[nn.Parameter]]


def kept(groups: Groups) -> dict[str, Tensor]:
    """Copy trained parameters to the CPU, named by group and index: `parameters.policy.0`. Of
    sharded parameters, only the local rows."""
    held = {name: (one, dtensor.local_shard(one.detach())) for name, one in _named(groups).items()}
    return {
        name: rows.cpu().clone()
        for name, (one, rows) in held.items()
        if dtensor.is_saved_here(one, rows)
    }


def restore(groups: Groups, tensors: Mapping[str, Tensor | Rows]) -> None:
    """Restore parameters from the result of :func:`kept`; other tensors are ignored.

    Raises:
        CheckpointError: it is of other parameters.
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
