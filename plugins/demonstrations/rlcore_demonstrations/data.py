"""Read the data set that `collect.path` names. Light."""

from __future__ import annotations

from pathlib import Path

from rlcore.contracts.errors import ConfigError
from rlcore.demonstrations.datasets import Dataset, require_dataset


def finished(path: Path) -> tuple[str, Dataset]:
    """Read the data set that `collect.path` names; the name of its format comes first.

    Raises:
        ConfigError: it is not there, or its collection did not come to its end.
        CheckpointError: it is damaged.
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
