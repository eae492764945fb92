"""Map the keys of RLinf's config files to the settings of OpenVLA. No tensor library."""

from __future__ import annotations

from rlcore_prismatic.imports import RULES as TOKEN_POLICIES
from rlcore_tools.import_rules import ImportRule

RULES = (
    ImportRule("actor.model.use_proprio", None, "OpenVLA reads no state", only=(False,)),
    *TOKEN_POLICIES,
)
