"""`rlcore VERB ...`: finds the verb, turns errors into sentences and exit codes.

A verb is a module of this package with `SUMMARY` and `main(arguments) -> exit code`; it is
imported when it is called, so that `rlcore plugins` pays for nothing else.
"""

from __future__ import annotations

import errno
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import TextIO

import rlcore
from rlcore.errors import Terminated, UserError, did_you_mean

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
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED, TERMINATED = 130, 143  # the shell's convention: 128 + signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    if threading.current_thread() is threading.main_thread():  # the only one that gets signals
        signal.signal(signal.SIGTERM, _terminate)
    try:
        return _dispatch(words)
    except UserError as error:
        _print_error(error)
        return error.exit_code
    except Terminated:
        print("rlcore: terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("rlcore: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `rlcore plugins | head`
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        where = f" {error.filename}" if error.filename else ""
        hint = "free some space; rlcore resume RUN goes on from the last checkpoint"
        full = UserError(f"can't write{where}: {error.strerror}", hint=hint)
        _print_error(full)
        return full.exit_code


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


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
