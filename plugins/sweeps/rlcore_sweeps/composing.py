"""Compose a job's configuration as its own process is going to, to look at it."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlcore.config.compose import load
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import UserError
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins


def composed(command: Sequence[str]) -> RunConfig:
    """The configuration of `rlcore COMMAND`.

    Args:
        command: a verb and its words.

    Raises:
        UserError: it does not compose.
    """
    return _loaded(_shown(command), trust=True)


def composed_if(command: Sequence[str]) -> RunConfig | None:
    """Likewise; None where it does not compose, which the job says."""
    try:
        return composed(command)
    except UserError:
        return None


def require_closed(command: Sequence[str], folder: Path) -> None:
    """Refuse a job whose words come from a folder, not from the user, and let code in.

    Args:
        command: a verb and its words.
        folder: for the message.

    Raises:
        UserError: says what would be let in.
    """
    try:
        text = _shown(command)
    except UserError:
        return
    try:
        _loaded(text, trust=False)
    except UserError as error:
        said = error.message.partition(" sets ")[2] or error.message
        raise type(error)(f"{folder} sets {said}", hint=error.hint) from None


def _shown(command: Sequence[str]) -> str:
    verb, *words = command
    main, said = load_target(load_plugins().get("command", verb).spec.target), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--cfg=job", "--package="])
    return said.getvalue()


def _loaded(text: str, *, trust: bool) -> RunConfig:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file, trust=trust)
