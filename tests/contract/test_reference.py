"""docs/reference.md and the docstrings that it leads to name what the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from rlcore_policy_gradient.minibatch import Minibatch

from rlcore.contracts.protocols import ChunkResult, Evaluation, PolicyOutput
from rlcore.contracts.specs import ActionMeaning
from rlcore.contracts.trajectory import Trajectory

PAGE = (Path(__file__).parents[2] / "docs/reference.md").read_text()


def test_the_table_has_every_meaning_of_an_action():
    text = PAGE.split("## Entries of an action")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == get_args(ActionMeaning)


@pytest.mark.parametrize("of", [Trajectory, Minibatch, ChunkResult, PolicyOutput, Evaluation])
def test_a_docstring_has_every_field_in_order(of):
    assert f"`{of.__name__}`" in PAGE
    attributes = of.__doc__.split("Attributes:")[1]
    named = re.findall(r"^ {8}(\w+(?:, \w+)*):", attributes, re.MULTILINE)
    assert ", ".join(named).split(", ") == [field.name for field in fields(of)]
