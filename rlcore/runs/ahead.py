"""Write and read the weights with which the rollout ahead of a checkpoint was played.

With `runner.loop=async` the episodes of the next update have been played when a checkpoint is
written, with the weights before the last update. They are not in the checkpoint; a resumed run
plays them again with these weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.files.damaged_files import damaged_on
from rlcore.files.safetensors_header import read_headers

if TYPE_CHECKING:
    from torch import Tensor

AHEAD = "ahead.safetensors"
"""Name of the file in a checkpoint's folder."""


def write_weights(file: Path, weights: Mapping[str, Tensor]) -> None:
    """Write weights by name."""
    from safetensors.torch import save_file

    save_file(dict(weights), file)


def read_weights(file: Path) -> dict[str, Tensor]:
    """Read what :func:`write_weights` wrote.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    read_headers(file)  # refuses anything but a regular file: load_file would block on a pipe
    with damaged_on(file, SafetensorError):
        return load_file(file)
