"""Tell success from what a step gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.contracts.errors import EnvError
from rlcore_env_gymnasium.settings import GymnasiumConfig
from rlcore_env_gymnasium.spec import require_success

USUAL = ("is_success", "success")


class Judge:
    """By the rule of the settings, of one episode at a time."""

    def __init__(self, config: GymnasiumConfig) -> None:
        self._id = config.id
        self._rule = require_success(config)
        self._total = 0.0

    def begin(self) -> None:
        """A new episode."""
        self._total = 0.0

    def solved(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        """Whether this step solved the task.

        Raises:
            EnvError: `info` does not say.
        """
        self._total += reward
        rule = self._rule
        if rule is None or rule["info"]:
            names = USUAL if rule is None else (rule["info"],)
            for name in names:
                if name in info:
                    return bool(info[name])
            raise EnvError(
                f"{self._id}: info has no {' or '.join(names)}, it has {sorted(info)}",
                hint="say when its task is solved: env.train.success=info:NAME, terminated, "
                "reward:X or return:X (at least X)",
            )
        if rule["end"]:
            return terminated
        return (reward if rule["sum"] == "reward" else self._total) >= float(rule["least"])
