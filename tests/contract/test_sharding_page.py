"""The table of docs/sharding.md has every key of `actor.fsdp_config`."""

from __future__ import annotations

import re
from pathlib import Path

from rlcore.config import schema_tree
from rlcore.config.schema import FSDPConfig

PAGE = (Path(__file__).parents[2] / "docs/sharding.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table under a heading."""
    lines = PAGE.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_every_key_is_there():
    named = {re.split("[:`]", cells[0])[1] for cells in rows("| key of `actor.fsdp_config` | |")}
    assert named == {key.path for key in schema_tree.walk(FSDPConfig()) if not key.section}
