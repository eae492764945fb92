"""Find PaliGemma's tokenizer: in a checkpoint folder, or where other programs download it to."""

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
"""Where openpi fetches it from, as a file that any browser or curl gets."""


def find_tokenizer(folder: Path) -> Path:
    """The tokenizer file of a checkpoint; CheckpointError with the possible names otherwise."""
    found = tokenizers(folder)
    if found:
        require_one(found)
        return found[0]
    raise CheckpointError(
        f"{folder} has no tokenizer ({' or '.join(TOKENIZER_FILES)}): openpi, RLinf and LeRobot "
        f"fetch PaliGemma's from elsewhere, and it is neither in {_openpis_cache()} nor in Hugging "
        f"Face's cache ({' or '.join(TOKENIZER_MODELS)})",
        hint=f"curl -L -o {folder / TOKENIZER_FILES[0]} {TOKENIZER_PAGE}",
    )


def tokenizers(folder: Path) -> list[Path]:
    """Those of the folder, or PaliGemma's, where openpi or the hub's command has put it."""
    own = _tokenizers_in((folder, folder / "assets", folder / "tokenizer"))
    if own:
        return own
    fetched = _tokenizers_in((_openpis_cache() / "big_vision", _openpis_cache()))
    for name in TOKENIZER_MODELS:
        snapshot = None if fetched else hub.cached(name)
        fetched = fetched if snapshot is None else _tokenizers_in((snapshot,))
    return fetched[:1]


def _tokenizers_in(places: Iterable[Path]) -> list[Path]:
    paths = (place / name for place in places for name in TOKENIZER_FILES)
    return [path for path in paths if path.is_file()]


def _openpis_cache() -> Path:
    """Where openpi keeps what it downloads; RLinf's installation puts the tokenizer there too."""
    return Path(os.environ.get("OPENPI_DATA_HOME") or "~/.cache/openpi").expanduser()
