"""Say how the rules of two evaluations differ, from the notes in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore.api import protocol_difference
from rlcore.results.parquet import read_note


def unlike_rules(first: Path, other: Path) -> str:
    """Where the rules of two evaluations differ, in a few words: `simulator.mujoco 3.3.0 and
    3.3.2`. Call it only for evaluations that were not played under one protocol.

    Args:
        first, other: their tables of episodes.

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
