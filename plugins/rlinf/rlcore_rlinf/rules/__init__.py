"""Collect the import rules of RLinf's keys, one table for each component."""

from __future__ import annotations

from collections.abc import Mapping

from rlcore_rlinf.rule import ImportRule
from rlcore_rlinf.rules import (
    algorithms,
    libero,
    maniskill,
    metaworld,
    openpi,
    openvla,
    robotwin,
)

RULES: Mapping[tuple[str, str], tuple[ImportRule, ...]] = {
    ("env", "libero"): libero.RULES,
    ("env", "maniskill"): maniskill.RULES,
    ("env", "metaworld"): metaworld.RULES,
    ("env", "robotwin"): robotwin.RULES,
    ("model", "openpi"): openpi.RULES,
    ("model", "openvla"): openvla.OPENVLA,
    ("model", "openvla_oft"): openvla.OPENVLA_OFT,
    ("algorithm", "grpo"): algorithms.GRPO,
    ("algorithm", "ppo"): algorithms.PPO,
}
"""The rules of each component, by its kind and name."""
