"""Compose a job's configuration as its own process is going to, to look at it."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.main import main
from rlcore.config.compose import load
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import UserError


def composed(command: Sequence[str]) -> RunConfig | None:
    """The configuration of `rlcore COMMAND`; None where it does not compose, which the job says.

    Args:
        command: a verb and its words.
    """
    text = _shown(command)
    return None if text is None else _loaded(text, trust=True)


def require_closed(command: Sequence[str], folder: Path) -> None:
    """Refuse a job whose words come from a folder, not from the user, and let code in.

    Args:
        command: a verb and its words.
        folder: for the message.

    Raises:
        UserError: says what would be let in.
    """
    text = _shown(command)
    if text is None:
        return
    try:
        _loaded(text, trust=False)
    except UserError as error:
        said = error.message.partition(" sets ")[2] or error.message
        raise type(error)(f"{folder} sets {said}", hint=error.hint) from None


def _shown(command: Sequence[str]) -> str | None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        code = main([*command, "--cfg=job", "--package="])
    return said.getvalue() if code == 0 else None


def _loaded(text: str, *, trust: bool) -> RunConfig:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file, trust=trust)
