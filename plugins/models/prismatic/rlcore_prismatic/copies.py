"""Compare copies of base weights in an adapter file with the base that is loaded."""

from __future__ import annotations

from pathlib import Path

import torch
from rlcore_weights.tensors import WeightsFile, read_stored
from torch import Tensor

from rlcore.contracts.errors import CheckpointError
from rlcore_prismatic.adapters import ADAPTERS_CONFIG, Adapters
from rlcore_prismatic.runs import network_scale
from rlcore_prismatic.stored import stored_network

_COARSE = (torch.bfloat16, torch.float16, torch.float32, torch.float64)  # the coarsest first


def check_copies(adapters: Adapters, base: Path) -> None:
    """Compare the copies of weights that peft writes wherever an output layer is adapted.

    Raises:
        CheckpointError: a copy differs from the network in `base` by more than rounding to its
            dtype, so the adapters were trained on another network.
    """
    stored = stored_network(base)
    names = [name for name in adapters.copies if name in stored.headers]
    with WeightsFile(adapters.file) as file:
        for name, weight in read_stored(stored, names, scale=network_scale(base, stored)):
            if not _same(weight, file.read(adapters.copies[name])):
                path = adapters.file.parent / ADAPTERS_CONFIG
                raise CheckpointError(
                    f"{adapters.file} holds a copy of {name}, which differs from {base}: the "
                    f"adapters were trained on another model ({path} names "
                    f"{adapters.settings.base!r})",
                    hint="set actor.model.model_path to the folder of the model that they were "
                    f"trained on, and actor.model.lora_path={adapters.file.parent}",
                )


def _same(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are equal in the coarser of their dtypes."""
    dtype = min(first.dtype, second.dtype, key=_COARSE.index)
    return torch.equal(first.to(dtype), second.to(dtype))
