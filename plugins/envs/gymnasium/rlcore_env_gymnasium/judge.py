"""Tell success from what a step gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.contracts.errors import EnvError
from rlcore_env_gymnasium.settings import GymnasiumConfig
from rlcore_env_gymnasium.spec import HOW, require_success, success_names, untold


class Judge:
    """By the rule of the settings, of one episode at a time."""

    def __init__(self, config: GymnasiumConfig) -> None:
        self._config, self._rule = config, require_success(config)
        self._names = success_names(config)
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
        if rule is None or self._names:
            for name in self._names:
                if name in info:
                    return bool(info[name])
            raise EnvError(untold(self._config, info), hint=HOW)
        if rule["end"]:
            return terminated
        return (reward if rule["sum"] == "reward" else self._total) >= float(rule["least"])
