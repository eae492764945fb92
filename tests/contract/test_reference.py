"""docs/reference.md names what the code has, in its order."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from rlcore_policy_gradient.minibatch import Minibatch

from rlcore.contracts.specs import ActionMeaning
from rlcore.contracts.trajectory import Trajectory

PAGE = (Path(__file__).parents[2] / "docs/reference.md").read_text()


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("## Entries of an action", get_args(ActionMeaning)),
        ("## A rollout: `Trajectory`", [one.name for one in fields(Trajectory)]),
        ("## Samples of a step: `Minibatch`", [one.name for one in fields(Minibatch)]),
    ],
)
def test_a_table_has_every_name(section, names):
    text = PAGE.split(section)[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert [name for cell in first for name in re.findall(r"`(\w+)`", cell)] == list(names)
