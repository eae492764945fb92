"""Describe how the protocols of two evaluations differ, from the metadata of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore.api import protocol_difference
from rlcore.results.parquet import read_note


def unlike_rules(first: Path, other: Path) -> str:
    """Describe how two protocols differ, e.g. `simulator.mujoco 3.3.0 and 3.3.2`.

    Call it only for evaluations whose protocols are known to differ.

    Args:
        first, other: the tables of episodes of the two evaluations.

    Raises:
        CheckpointError: a file is damaged.
    """
    rules = [_noted(file) for file in (first, other)]
    if not all(rules):
        return "a file does not say which"
    return protocol_difference(*rules) or "their digests, by another version of rlcore"


def _noted(file: Path) -> dict[str, Any]:
    noted = read_note(file).get("protocol")
    return noted if isinstance(noted, dict) else {}
