"""Define rules that import RLinf's settings of MetaWorld. Imports no simulator."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

from rlcore.config.schema import CHECKPOINT
from rlcore_env_metaworld.tasks import BENCHMARKS

SUITES = {
    "metaworld_50": "mt50",
    "metaworld_45_ind": "ml45_train",
    "metaworld_45_ood": "ml45_test",
}
SENTENCES = "rlinf/envs/metaworld/metaworld_config.json"
EXECUTED = [0, 1, 2, 6]  # position and gripper of a 7-dof action; MetaWorld's arm does not rotate
OF_THE_ARM = 7
NOT_READ = "their env does not read it: its frames are of 480 x 480 pixels"


def _benchmark(suite: Any, _: Foreign) -> str:
    if suite not in SUITES:
        raise ValueError(f"the task suites are {', '.join(SUITES)}")
    return SUITES[suite]


def _sentences(_: Any, foreign: Foreign) -> str:
    """Return the source of RLinf's instructions: the file in its checkout, else the checkpoint."""
    found = foreign.nearby(SENTENCES)
    return CHECKPOINT if found is None else f"{found}:TASK_DESCRIPTIONS"


def _entries(_: Any, foreign: Foreign) -> Any:
    """Select the four entries that this arm executes, if the model's actions have seven."""
    return EXECUTED if foreign.get("actor.model.action_dim") == OF_THE_ARM else UNSAID


def _last(_: Any, foreign: Foreign) -> Any:
    return UNSAID if foreign.get("env.train.auto_reset") else False


def _trials(_: Any, foreign: Foreign) -> int:
    """Return the trials per task for as many episodes as RLinf's evaluation plays.

    RLinf draws the tasks of its episodes at random.
    """
    suite = foreign.get("env.eval.task_suite_name")
    return max(1, foreign.episodes() // len(BENCHMARKS[SUITES.get(suite, "mt50")]))


RULES = (
    ImportRule("env.*.task_suite_name", "env.*.benchmark", "the set of tasks", _benchmark),
    ImportRule("env.*.init_params.camera_heights", None, NOT_READ),
    ImportRule("env.*.init_params.camera_widths", None, NOT_READ),
    ImportRule("", "env.*.image_size", "their frames, whatever init_params says", lambda *_: 480),
    ImportRule("", "env.*.settle_steps", "their env waits 15 steps, and one more", lambda *_: 16),
    ImportRule("", "env.*.sentences", "what RLinf tells the policy", _sentences),
    ImportRule(
        "",
        "env.eval.trials_per_task",
        "as many episodes as theirs, each start once; theirs are drawn at random",
        _trials,
    ),
    ImportRule(
        "", "env.*.render_final", "nothing reads the last frame where a time limit is an end", _last
    ),
    ImportRule("", "actor.model.action_entries", "the arm does not turn", _entries),
)
