"""How RLinf's files name the settings of OpenVLA. Light."""

from __future__ import annotations

from rlcore_prismatic.imports import RULES as TOKEN_POLICIES
from rlcore_tools.import_rules import ImportRule

RULES = (
    ImportRule("actor.model.use_proprio", None, "OpenVLA reads no state", only=(False,)),
    *TOKEN_POLICIES,
)
