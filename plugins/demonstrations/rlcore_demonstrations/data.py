"""Read the data set that `collect.path` names. Imports no tensor library."""

from __future__ import annotations

from pathlib import Path

from rlcore.contracts.errors import ConfigError
from rlcore.demonstrations.datasets import Dataset, require_dataset


def finished(path: Path) -> tuple[str, Dataset]:
    """Return the name of the format and the data set at `path`, the value of `collect.path`.

    Raises:
        ConfigError: there is no data set, or its collection was interrupted.
        CheckpointError: the data set is damaged.
    """
    name, form = require_dataset(path, "collect.path")
    data = form.read(path)
    if not data.complete:
        raise ConfigError(
            f"collect.path must be a finished data set, got {str(path)!r}: its collection was "
            f"interrupted after {len(data)} episodes",
            hint=f"go on with it by the command that began it: rlcore collect ... "
            f"collect.output={path}",
        )
    return name, data
