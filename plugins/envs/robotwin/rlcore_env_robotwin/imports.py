"""How RLinf's files name the settings of RoboTwin. Light."""

from __future__ import annotations

from typing import Any

from rlcore.config.imports import UNSAID, Foreign, ImportRule
from rlcore_env_robotwin.arguments import COLLECTION, NOT_OBSERVED, OBSERVED

TASK = "env.*.task_config"
SILENT = {
    f"{TASK}.planner_backend": "curobo",
    f"{TASK}.camera.collect_wrist_camera": True,
    f"{TASK}.domain_randomization.random_background": False,
    f"{TASK}.domain_randomization.cluttered_table": False,
    f"{TASK}.domain_randomization.clean_background_rate": 1.0,
    f"{TASK}.domain_randomization.random_head_camera_dis": 0.0,
    f"{TASK}.domain_randomization.random_table_height": 0.0,
    f"{TASK}.domain_randomization.random_light": False,
    f"{TASK}.domain_randomization.crazy_random_light_rate": 0.0,
}
"""What RoboTwin takes where its settings leave a key out."""


def _trials(_: Any, foreign: Foreign) -> Any:
    """Their evaluation plays that many episodes, of one task."""
    return foreign.episodes() or UNSAID


def _last(_: Any, foreign: Foreign) -> Any:
    return UNSAID if foreign.get("env.train.auto_reset") else False


RULES = (
    ImportRule(
        "env.train.seeds_path", "env.train.train_seeds_path", "in its order; theirs is shuffled"
    ),
    ImportRule(
        "env.eval.seeds_path", "env.eval.heldout_seeds_path", "in its order; theirs is shuffled"
    ),
    ImportRule("env.*.center_crop", "env.*.center_crop", "of the env's frames", silent=False),
    *(ImportRule(key, key, "RoboTwin's own", silent=value) for key, value in SILENT.items()),
    ImportRule("env.*.use_custom_reward", None, "a solved task is worth reward_coef", only=(True,)),
    *(
        ImportRule(f"{TASK}.{name}", None, says, only=only, once_ours=True)
        for names, says, only in (
            (COLLECTION, "RoboTwin's own data collection and evaluation do not run", None),
            (("render_freq",), "processes have no screen for RoboTwin's window", (0,)),
            ([f"data_type.{kind}" for kind in OBSERVED], "the policy needs it", (True,)),
            ([f"data_type.{kind}" for kind in NOT_OBSERVED], "no policy sees it", None),
        )
        for name in names
    ),
    ImportRule("", "env.eval.trials_per_task", "as many episodes as theirs, each once", _trials),
    ImportRule(
        "", "env.*.render_final", "nothing reads the last frame where a time limit is an end", _last
    ),
)
