"""The few private names of core that tests outside `tests/unit` use.

Such tests use what docs/api.md lists, as a plugin does. Some also play a run in their own process,
stage by stage, or read a run folder whole; the names for that are imported here and nowhere else,
so that a rename in core changes one line (`tests/contract/test_imports_of_tests.py`).
"""

from __future__ import annotations

from rlcore.api.run import config_to_evaluate
from rlcore.checks.further_sides import PLATEAU, further_sides
from rlcore.checks.run import check
from rlcore.config.compose import compose, load, recipe_of, to_yaml
from rlcore.files.damaged_files import OtherVersionError
from rlcore.files.digests import seal
from rlcore.learner.optim import PolicyOptimizer
from rlcore.plugins import extras
from rlcore.plugins.entry_points import Installed
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import Column, evaluation_columns
from rlcore.runs import learner_state
from rlcore.runs.checkpoint import (
    Checkpoint,
    find_checkpoint,
    has_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from rlcore.runs.history import read_history
from rlcore.runs.parquet import read_note
from rlcore.runs.state import OWN_DIGEST
from rlcore.runs.trackers import read_metrics
from rlcore.training import session, supervised_phase
from rlcore.training import train as train_stages
from rlcore.training.assembly import Assembly, assemble
from rlcore.training.callbacks import HookError, ObserverWarning
from rlcore.training.collect import run as collect
from rlcore.training.evaluate import run as evaluate
from rlcore.training.protocol.rows import protocol_spec
from rlcore.training.session import Session, open_session
from rlcore.training.sft import run as sft
from rlcore.training.stages import play
from rlcore.training.sync_loop import SyncLoop
from rlcore.training.train import run as train
from rlcore.utils.mkl import MKL, OURS, current_environment
from rlcore.utils.spans import CALLS, Span, Taken
from rlcore.workers.backend import make_group

__all__ = [
    "CALLS",
    "MKL",
    "OURS",
    "OWN_DIGEST",
    "PLATEAU",
    "Assembly",
    "Checkpoint",
    "Column",
    "GatherOrder",
    "HookError",
    "Installed",
    "ObserverWarning",
    "OtherVersionError",
    "PolicyOptimizer",
    "Session",
    "Span",
    "SyncLoop",
    "Taken",
    "assemble",
    "check",
    "collect",
    "compose",
    "config_to_evaluate",
    "current_environment",
    "evaluate",
    "evaluation_columns",
    "extras",
    "find_checkpoint",
    "further_sides",
    "has_checkpoint",
    "learner_state",
    "load",
    "load_checkpoint",
    "make_group",
    "open_session",
    "play",
    "protocol_spec",
    "read_history",
    "read_metrics",
    "read_note",
    "recipe_of",
    "save_checkpoint",
    "seal",
    "session",
    "sft",
    "supervised_phase",
    "to_yaml",
    "train",
    "train_stages",
]
