"""Run `rlcore COMMAND ...`: find the command, and turn errors into messages and exit codes.

All commands come from plugins, including those of core (:mod:`rlcore.plugins.builtin`). Only the
module of the called command is imported, so that light commands start fast.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import rlcore
from rlcore.contracts.errors import PluginError, RunWarning, UserError, file_error
from rlcore.plugins.extras import DISTRIBUTION
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Component, load_plugins
from rlcore.utils import signals
from rlcore.utils.stdio import escape_output
from rlcore.utils.text import format_exception

AGAIN = "give the command again"
CLOSED = (OSError, ValueError)  # stderr has no reader any more, or an env has closed it


class CommandError(PluginError):
    """A command of a plugin raised an unexpected error, or returned no exit code."""

    exit_code = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code.

    Args:
        arguments: words after `rlcore`; None for those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    escape_output()
    warnings.showwarning = _show_warning
    signals.install_handlers()
    try:
        return _dispatch(words)
    except UserError as error:
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt as error:
        number = signals.signal_number(error)
        with contextlib.suppress(*CLOSED):
            print(signals.final_message(number), file=sys.stderr)
        return signals.exit_code(number)
    except BrokenPipeError:  # the reader has exited: `rlcore plugins | head`
        sys.stderr.close()
        return 1


def _dispatch(words: list[str]) -> int:
    if words and words[0] in ("-V", "--version"):
        print(f"rlcore {rlcore.__version__}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        words = ["help"]
    if words[0] == "help" and words[1:] and words[1][:1] != "-":
        words = [words[1], "--help", *words[2:]]
    command = _command(words[0])
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(
            f"the current folder can't be used: {error.strerror}", hint="cd to another one"
        ) from None
    try:
        code = load_target(command.spec.target)(words[1:])
    except (UserError, BrokenPipeError):
        raise
    except Exception as error:
        user_error = file_error(error, AGAIN) or _blame(command, error)
        if user_error is None:  # a bug in rlcore keeps its traceback
            raise
        raise user_error from error
    if not isinstance(code, int):
        raise CommandError(
            f"{_name_with_version(command)} must return its exit code, a whole number, "
            f"got {code!r:.80}"
        )
    return code


def _command(name: str) -> Component:
    """Return the command of that name.

    Raises:
        UserError: the name is an override, `key=value`.
        PluginError: the command does not exist, its plugin can't be used, or several plugins claim
            the name.
    """
    registry = load_plugins()
    if "=" in name:  # command names have no equals sign
        raise UserError(f"there is no command {name!r}", hint=f"rlcore train {name}")
    return registry.get("command", name)


def _blame(command: Component, error: Exception) -> CommandError | None:
    """Return an error that names the plugin of the command; None for a command of rlcore itself."""
    if command.distribution == DISTRIBUTION:
        return None
    own = error.__traceback__ and error.__traceback__.tb_next  # without the frame of _dispatch
    return CommandError(
        f"{_name_with_version(command)} failed: {format_exception(error, own)}",
        hint="this is a bug in the plugin; please report it to its authors",
    )


def _name_with_version(command: Component) -> str:
    return f"command {command.spec.name!r} of {command.distribution} {command.version}"


def _print_error(error: UserError) -> None:
    with contextlib.suppress(*CLOSED):
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint is not None:
            print(f"  hint: {error.hint}", file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of rlcore to the user as one line, and any other in Python's form."""
    text = f"warning: {message}\n"
    if not issubclass(category, RunWarning):
        text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)


if __name__ == "__main__":
    sys.exit(main())
