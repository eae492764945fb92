"""The tables of docs/sharding.md have every key of `actor.fsdp_config`, those that have one value
here too."""

from __future__ import annotations

import re
from pathlib import Path

from rlcore.config import old_names, tree
from rlcore.config.schema import FSDPConfig

PAGE = (Path(__file__).parents[2] / "docs/sharding.md").read_text()
SECTION = "actor.fsdp_config."


def rows(heading: str) -> list[list[str]]:
    """Cells of the table under a heading."""
    lines = PAGE.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_every_key_is_there():
    named = {re.split("[:`]", cells[0])[1] for cells in rows("| key of `actor.fsdp_config` | |")}
    assert named == {key.path for key in tree.walk(FSDPConfig()) if not key.section}


def test_keys_with_one_value_are_there_with_it():
    told = {
        SECTION + key: set(re.findall("`(.*?)`", cells[1]))
        for cells in rows("| key of `actor.fsdp_config` | only | |")
        for key in re.findall("`(.*?)`", cells[0])
    }
    known = {key: values for key, (values, _) in old_names.WITHOUT.items()}
    known |= {k: values for k, values in old_names.ONE_VALUE.items() if k.startswith(SECTION)}
    written = {None: "null", True: "true", False: "false"}
    assert told == {
        key: {written.get(value, value) for value in values} for key, values in known.items()
    }
