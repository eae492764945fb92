"""Compose a job's configuration in the sweep's process, as the job's own process will."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

from rlcore.config.compose import from_yaml
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import UserError
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

PRINTED = Path("--cfg=job")  # stands for the printed configuration in error messages


def compose_job(command: Sequence[str]) -> RunConfig:
    """Return the configuration that `rlcore COMMAND` would run with.

    Args:
        command: a verb and its arguments.

    Raises:
        UserError: the configuration does not compose.
    """
    return from_yaml(_shown(command), PRINTED, trust=True)


def try_compose_job(command: Sequence[str]) -> RunConfig | None:
    """Return the result of :func:`compose_job`, or None if it fails: the job reports the error."""
    try:
        return compose_job(command)
    except UserError:
        return None


def require_no_code(command: Sequence[str], folder: Path) -> None:
    """Reject a job whose arguments come from a sweep's folder and would load or run code.

    A configuration that does not compose passes: the job reports the error.

    Args:
        command: a verb and its arguments.
        folder: the sweep's folder, for the message.

    Raises:
        UserError: the configuration sets a key that needs trust; the message names it.
    """
    try:
        text = _shown(command)
    except UserError:
        return
    try:
        from_yaml(text, PRINTED)
    except UserError as error:
        setting = error.message.partition(" sets ")[2] or error.message
        raise type(error)(f"{folder} sets {setting}", hint=error.hint) from None


def _shown(command: Sequence[str]) -> str:
    """Return what `rlcore COMMAND --cfg=job` prints: the configuration as YAML."""
    verb, *words = command
    main = load_target(load_plugins().get("command", verb).spec.target)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--cfg=job", "--package="])
    return output.getvalue()
