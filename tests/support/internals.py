"""The few private names of core that tests outside `tests/unit` use.

Such tests use what docs/api.md lists, as a plugin does. Some also play a run in their own process,
stage by stage, or read a run folder whole; the names for that are imported here and nowhere else,
so that a rename in core changes one line (`tests/contract/test_imports_of_tests.py`).
"""

from __future__ import annotations

from rlcore.checks.run import check
from rlcore.config.compose import compose, recipe_of, to_yaml
from rlcore.runs.checkpoint import find_checkpoint, has_checkpoint, load_checkpoint
from rlcore.runs.trackers import read_metrics
from rlcore.training.assembly import Assembly, assemble
from rlcore.training.train import run as train
from rlcore.training.train import update_policy

__all__ = [
    "Assembly",
    "assemble",
    "check",
    "compose",
    "find_checkpoint",
    "has_checkpoint",
    "load_checkpoint",
    "read_metrics",
    "recipe_of",
    "to_yaml",
    "train",
    "update_policy",
]
