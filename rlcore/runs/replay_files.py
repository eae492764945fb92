"""Name, write, read and link the files of a replay in the folders of checkpoints.

    checkpoints/step_000010/replay-000007-00001-of-00002.safetensors

The replay is stored in segments. Each file is written once, into the first checkpoint after its
rollout; later checkpoints have hard links to it. The file remains as long as one of these
checkpoints exists, and each checkpoint is complete without the others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.safetensors_header import read_headers
from rlcore.runs.learner_state import COUNTERS

if TYPE_CHECKING:
    from torch import Tensor

REPLAY = "replay"
"""Key of the learner's state whose value lists (number, parts) of each segment."""
_FILES = f"{REPLAY}-*.safetensors"


def segment_files(number: int, parts: int) -> list[str]:
    """Return the file names of a segment that `parts` processes wrote, in the order of ranks."""
    return [
        f"{REPLAY}-{number:06d}-{part:05d}-of-{parts:05d}.safetensors"
        for part in range(1, parts + 1)
    ]


def write_segment(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors of one process's part of a segment to a file."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)


def read_segment(file: Path) -> dict[str, Tensor]:
    """Read what :func:`write_segment` wrote, memory-mapped.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    read_headers(file)  # refuses anything but a regular file: load_file would block on a pipe
    with damaged_on(file, SafetensorError):
        return load_file(file)


def files_in(checkpoint: Path | None) -> list[str]:
    """Return the sorted names of the replay files in a checkpoint's folder; empty for None."""
    return [] if checkpoint is None else sorted(file.name for file in checkpoint.glob(_FILES))


def link_segments(folder: Path, earlier: Path | None) -> None:
    """Add to a new checkpoint the replay files that its learner's state names and it lacks.

    The files are hard links to those of an earlier checkpoint, or copies if the file system can't
    link them.

    Args:
        folder: folder of the new checkpoint, with `learner.json`.
        earlier: folder of the previous checkpoint; None: nothing is linked.

    Raises:
        OSError: a file is missing in both folders.
    """
    for number, parts in read_mapping(folder / COUNTERS)["state"].get(REPLAY, []):
        for name in segment_files(number, parts):
            if earlier is None or (folder / name).exists():
                continue
            try:
                os.link(earlier / name, folder / name)
            except OSError:  # a file system without hard links
                shutil.copyfile(earlier / name, folder / name)
