"""Warn about a configuration. Light."""

from __future__ import annotations

from rlcore.contracts import errors


class ConfigWarning(errors.RunWarning):
    """Warns of something in the configuration that works but should be written differently."""


def warn(message: str) -> None:
    """Warn about the configuration; the command line prints it as one line."""
    errors.warn(message, ConfigWarning)
