"""Log each message of ManiSkill once per process.

ManiSkill warns again in every env that it builds, for example of a robot that a task does not list:
hundreds of equal lines in a run.
"""

from __future__ import annotations

import logging

from mani_skill.utils.logging_utils import logger


class FirstOfEqual(logging.Filter):
    """A filter that drops a message which it has passed before."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record's message is new."""
        message = record.getMessage()
        new = message not in self._passed
        self._passed.add(message)
        return new


def log_once() -> None:
    """Drop repeated messages of ManiSkill's logger, from now on."""
    if not any(isinstance(added, FirstOfEqual) for added in logger.filters):
        logger.addFilter(FirstOfEqual())
