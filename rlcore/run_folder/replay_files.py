"""Name, write, read and share the files of a replay, in the folders of checkpoints.

    checkpoints/step_000010/replay-000007-00001-of-00002.safetensors

A file is written once, into the first checkpoint after its rollout. Later checkpoints have hard
links to it: it stays as long as one of them, and each checkpoint is whole by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.files.damaged_files import blaming, read_mapping
from rlcore.files.safetensors_header import read_headers
from rlcore.run_folder.learner_state import COUNTERS

if TYPE_CHECKING:
    from torch import Tensor

REPLAY = "replay"
"""Key of the learner's state: (number, parts) of each segment."""
_FILES = f"{REPLAY}-*.safetensors"


def segment_files(number: int, parts: int) -> list[str]:
    """The files of a segment that so many processes wrote, by rank."""
    return [
        f"{REPLAY}-{number:06d}-{part:05d}-of-{parts:05d}.safetensors"
        for part in range(1, parts + 1)
    ]


def write_segment(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write one file."""
    from safetensors.torch import save_file

    save_file({name: one.contiguous() for name, one in tensors.items()}, file)


def read_segment(file: Path) -> dict[str, Tensor]:
    """What :func:`write_segment` wrote, mapped into memory.

    Raises:
        CheckpointError: missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    read_headers(file)  # it is a file, and no pipe that is waited for
    with blaming(file, SafetensorError):
        return load_file(file)


def files_in(checkpoint: Path | None) -> list[str]:
    """Names of the files of a replay in a checkpoint's folder."""
    return [] if checkpoint is None else sorted(file.name for file in checkpoint.glob(_FILES))


def link_segments(folder: Path, earlier: Path | None) -> None:
    """Give a new checkpoint the files that its learner's state names and that an earlier one has.

    Raises:
        OSError: a file is in neither.
    """
    for number, parts in read_mapping(folder / COUNTERS)["state"].get(REPLAY, []):
        for name in segment_files(number, parts):
            if earlier is None or (folder / name).exists():
                continue
            try:
                os.link(earlier / name, folder / name)
            except OSError:  # a disk without hard links
                shutil.copyfile(earlier / name, folder / name)
