"""Import rules: RLinf's keys for the settings of RoboTwin. Loads no simulator."""

from __future__ import annotations

from itertools import product
from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

from rlcore.config.translation import take
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError
from rlcore.terminal.text import abbreviate_list, format_value
from rlcore_env_robotwin.arguments import COLLECTION, NOT_OBSERVED, OBSERVED, preset

TASK = "env.*.task_config"
SILENT = {
    f"{TASK}.planner_backend": "curobo",
    f"{TASK}.camera.collect_wrist_camera": True,
    **{
        f"{TASK}.domain_randomization.{name}": value if isinstance(value, bool) else float(value)
        for name, value in preset("demo_clean").items()
    },
}
"""RoboTwin's defaults of keys that its settings omit."""


def _trials(_: Any, foreign: Foreign) -> Any:
    """Return the number of episodes of RLinf's evaluation, which plays one task."""
    return foreign.episodes() or UNSAID


def _last(_: Any, foreign: Foreign) -> Any:
    return UNSAID if foreign.get("env.train.auto_reset") else False


NOT_READ = tuple(
    ImportRule(f"{TASK}.{name}", None, says, only=only)
    for names, says, only in (
        (COLLECTION, "RoboTwin's own data collection and evaluation do not run", None),
        (("render_freq",), "processes have no screen for RoboTwin's window", (0,)),
        ([f"data_type.{kind}" for kind in OBSERVED], "the policy needs it", (True,)),
        ([f"data_type.{kind}" for kind in NOT_OBSERVED], "no policy sees it", None),
    )
    for name in names
)
"""Rules of keys that are not imported. The first version of this plugin had these keys, too."""


def drop_old_keys(layers: list[dict[str, Any]], sides: list[str]) -> None:
    """Remove the keys in `NOT_READ` from RoboTwin's envs, with a warning.

    See :func:`rlcore.contracts.hookspecs.rlcore_translate_keys`.

    Raises:
        ConfigError: a key has a value that can't be ignored.
    """
    dropped = []
    for layer, rule, side in product(layers, NOT_READ, sides):
        path = rule.theirs.replace("*", side)
        found, value = take(layer, path)
        if found and rule.only is not None and value not in rule.only:
            allowed = " or ".join(map(format_value, rule.only))
            raise ConfigError(f"{path} must be {allowed}, or left out: {rule.says}, got {value!r}")
        dropped += [path] if found else []
    if dropped:
        warn(f"{abbreviate_list(dropped)}: without effect, and no longer read; leave them out")


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
    *NOT_READ,
    ImportRule("", "env.eval.trials_per_task", "as many episodes as theirs, each once", _trials),
    ImportRule(
        "", "env.*.render_final", "nothing reads the last frame where a time limit is an end", _last
    ),
)
