"""Find PaliGemma's tokenizer in a checkpoint folder, or in the caches of openpi and the hub."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files import hub
from rlcore_model_openpi.normalize import require_one

TOKENIZER_FILES = ("paligemma_tokenizer.model", "tokenizer.model")
TOKENIZER_MODELS = ("google/paligemma-3b-pt-224", "RLinf/openpi_tokenizer")  # on the hub
TOKENIZER_PAGE = "https://storage.googleapis.com/big_vision/paligemma_tokenizer.model"
"""The URL from which openpi downloads the tokenizer; it needs no login."""


def find_tokenizer(folder: Path) -> Path:
    """Return the tokenizer file of a checkpoint.

    Raises:
        CheckpointError: it is missing, or the folder holds several with different contents.
    """
    paths = tokenizers(folder)
    if paths:
        require_one(paths)
        return paths[0]
    raise CheckpointError(
        f"{folder} has no tokenizer ({' or '.join(TOKENIZER_FILES)}): openpi, RLinf and LeRobot "
        f"fetch PaliGemma's from elsewhere, and it is neither in {_openpi_cache()} nor in Hugging "
        f"Face's cache ({' or '.join(TOKENIZER_MODELS)})",
        hint=f"curl -L -o {folder / TOKENIZER_FILES[0]} {TOKENIZER_PAGE}",
    )


def tokenizers(folder: Path) -> list[Path]:
    """Return the tokenizer files in a checkpoint folder, or else a cached one.

    Returns:
        All files in the folder and its `assets` and `tokenizer` folders; else at most one file,
        from openpi's cache or Hugging Face's.
    """
    own = _tokenizers_in((folder, folder / "assets", folder / "tokenizer"))
    if own:
        return own
    fetched = _tokenizers_in((_openpi_cache() / "big_vision", _openpi_cache()))
    for name in TOKENIZER_MODELS:
        snapshot = None if fetched else hub.cached(name)
        fetched = fetched if snapshot is None else _tokenizers_in((snapshot,))
    return fetched[:1]


def _tokenizers_in(places: Iterable[Path]) -> list[Path]:
    paths = (place / name for place in places for name in TOKENIZER_FILES)
    return [path for path in paths if path.is_file()]


def _openpi_cache() -> Path:
    """Return openpi's download folder, into which RLinf's installer puts the tokenizer too."""
    return Path(os.environ.get("OPENPI_DATA_HOME") or "~/.cache/openpi").expanduser()
