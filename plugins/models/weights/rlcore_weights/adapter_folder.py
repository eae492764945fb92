"""Read from a folder of adapters, as peft writes it, which model they adapt."""

from __future__ import annotations

from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.reading import read_json

ADAPTERS_CONFIG = "adapter_config.json"  # peft's name, and the key below


def base_of_adapters(folder: Path) -> str | None:
    """Return the path or hub name of the model that a folder's adapters adapt.

    Returns:
        None if the folder has no `adapter_config.json`.

    Raises:
        CheckpointError: `adapter_config.json` is damaged, or names no model.
    """
    path = folder / ADAPTERS_CONFIG
    if not path.exists():
        return None
    try:
        base = read_json(path)["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        base = None
    if not isinstance(base, str) or not base:
        raise CheckpointError(
            f"{path} names no base_model_name_or_path",
            hint="write the folder of the model that the adapters adapt into it",
        )
    return base
