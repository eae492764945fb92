"""Determine success from the results of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.contracts.errors import EnvError
from rlcore_env_gymnasium.settings import GymnasiumConfig
from rlcore_env_gymnasium.spec import HOW, no_success_message, require_success, success_names


class Judge:
    """Success criterion of the settings, for one episode at a time.

    Args:
        config: settings of the env, with the rule in `success`.
    """

    def __init__(self, config: GymnasiumConfig) -> None:
        self._config = config
        self._rule = require_success(config)
        self._names = success_names(config)
        self._total = 0.0

    def begin(self) -> None:
        """Begin a new episode: reset the return to 0."""
        self._total = 0.0

    def solved(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        """Check whether this step solved the task.

        Must be called once for each step, because it adds the reward to the episode's return.

        Raises:
            EnvError: the rule reads `info`, which has none of its names.
        """
        self._total += reward
        rule = self._rule
        if rule is None or self._names:
            for name in self._names:
                if name in info:
                    return bool(info[name])
            raise EnvError(no_success_message(self._config, info), hint=HOW)
        if rule["end"]:
            return terminated
        return (reward if rule["sum"] == "reward" else self._total) >= float(rule["least"])
