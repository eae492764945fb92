"""Use rlcore from Python: train, evaluate, make an env, load a policy, read a run.

The command line calls the same functions. Importing this package loads neither torch nor Ray; a
function that needs one of them imports it when called. The most common functions can be imported
from `rlcore` itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlcore.api.launch import Draft as Draft
from rlcore.api.launch import start as start
from rlcore.api.policy import LoadedPolicy as LoadedPolicy
from rlcore.api.policy import build_policy as build_policy
from rlcore.api.policy import check_model as check_model
from rlcore.api.policy import load_policy as load_policy
from rlcore.api.policy import restore_trained as restore_trained
from rlcore.api.policy import save_policy as save_policy
from rlcore.api.replay import ONE_PROCESS as ONE_PROCESS
from rlcore.api.resume import config_to_resume as config_to_resume
from rlcore.api.resume import resume as resume
from rlcore.api.run import RunResult as RunResult
from rlcore.api.run import compose as compose
from rlcore.api.run import evaluate as evaluate
from rlcore.api.run import make_env as make_env
from rlcore.api.run import sweep as sweep
from rlcore.api.run import train as train
from rlcore.api.saved_run import NEEDED_TO_ACT as NEEDED_TO_ACT
from rlcore.api.saved_run import Evaluation as Evaluation
from rlcore.api.saved_run import SavedRun as SavedRun
from rlcore.api.saved_run import open_run as open_run
from rlcore.api.saved_run import protocol_difference as protocol_difference

if TYPE_CHECKING:
    from rlcore.rollout.messages import Trace as Trace
    from rlcore.runs.checkpoint import Checkpoint as Checkpoint
    from rlcore.runs.checkpoint import writing as writing
    from rlcore.training.assembly import Assembly as Assembly
    from rlcore.training.env_in_process import build_checked_env as build_checked_env
    from rlcore.training.play_episode import Phase as Phase
    from rlcore.training.play_episode import Played as Played
    from rlcore.training.play_episode import named_episode as named_episode
    from rlcore.training.play_episode import play_episode as play_episode
    from rlcore.training.play_episode import play_episodes as play_episodes
    from rlcore.workers.checked_env import CheckedEnv as CheckedEnv

_HOMES = {
    "Assembly": "rlcore.training.assembly",
    "CheckedEnv": "rlcore.workers.checked_env",
    "Checkpoint": "rlcore.runs.checkpoint",
    "Phase": "rlcore.training.play_episode",
    "Played": "rlcore.training.play_episode",
    "Trace": "rlcore.rollout.messages",
    "build_checked_env": "rlcore.training.env_in_process",
    "named_episode": "rlcore.training.play_episode",
    "play_episode": "rlcore.training.play_episode",
    "play_episodes": "rlcore.training.play_episode",
    "writing": "rlcore.runs.checkpoint",
}


def __getattr__(name: str) -> Any:
    """Import names whose modules are slow to import, on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
