"""`rlcore VERB ...`: finds the verb, turns errors into sentences and exit codes.

A verb is a module of this package with `SUMMARY` and `main(arguments) -> exit code`; it is
imported when it is called, so that `rlcore plugins` pays for nothing else.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

import rlcore
from rlcore import signals
from rlcore.errors import NO_SPACE, UserError, did_you_mean

VERBS = {
    "train": "fine-tune a policy: [demonstrations, SFT,] evaluation, RL, evaluation",
    "resume": "go on with an interrupted run: resume RUN [key=value ...]",
    "eval": "evaluate a checkpoint, or the last checkpoint of a run's folder",
    "replay": "play one episode of a run again: video, and all that env and policy exchanged",
    "export": "write a checkpoint's policy in the original layout of its model",
    "collect": "write expert demonstrations",
    "sft": "train supervised on demonstrations",
    "report": "write a run's report again, or compare several runs",
    "plugins": "list what the installed plugins bring",
    "doctor": "check what this machine lacks",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    signals.heed()
    try:
        return _dispatch(words)
    except UserError as error:
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt as error:
        number = signals.number_of(error)
        with contextlib.suppress(OSError):
            print(signals.last_words(number), file=sys.stderr)
        return signals.exit_code(number)
    except BrokenPipeError:  # `rlcore plugins | head`
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in NO_SPACE and error.filename is None:
            raise
        full = error.errno in NO_SPACE
        where = "" if error.filename is None else f" {error.filename}"
        hint = "rlcore resume RUN goes on from the last checkpoint"
        named = UserError(
            f"can't {'write' if full else 'read or write'}{where}: {error.strerror}",
            hint=f"free some space; {hint}" if full else f"once that is mended, {hint}",
        )
        _print_error(named)
        return named.exit_code


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"rlcore {rlcore.__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        raise UserError(
            f"there is no command {verb!r}; choose from: {', '.join(VERBS)}."
            f"{did_you_mean(verb, VERBS)}",
            hint=f"rlcore train {verb}" if "=" in verb else "rlcore --help",
        )
    module = import_module(f"rlcore.cli.{verb}")
    return int(vars(module)["main"](rest))


def _usage() -> str:
    lines = ["rlcore: fine-tune vision-language-action policies with reinforcement learning", ""]
    lines.append("usage: rlcore COMMAND ...")
    lines += [f"  {verb:<10}{summary}" for verb, summary in VERBS.items()]
    lines += ["", "rlcore COMMAND --help tells more; rlcore --version the version."]
    return "\n".join(lines)


def _print_error(error: UserError) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more
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
    """A warning of ours is for the user: one line. Others keep Python's form."""
    if category.__module__.startswith("rlcore."):
        print(f"warning: {message}", file=file or sys.stderr)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)


if __name__ == "__main__":
    sys.exit(main())
