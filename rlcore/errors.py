"""The errors a user can fix. Knows nothing of what raised them.

Every error names the thing, the value it got, what is allowed, and the next command.
The command line prints a :class:`UserError` as a message, never as a traceback;
anything else is a bug in rlcore and keeps its traceback.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system answers when there is no room: disk full, quota used up, file too large."""

FAMILY = 20
"""Names of one beginning that a message still lists."""


class RunWarning(UserWarning):
    """Something the user should know, though nothing has failed. The command line shows it as one
    line, without the place in the code; plugins may derive their own."""


class UserError(Exception):
    """Base of all errors whose cause is an input, not a bug.

    Args:
        message: what is wrong: the thing, its value, the choices.
        hint: what to do next, best a command. Printed on its own line.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # pickle would drop the keyword-only hint on the way through Ray
        return (partial(type(self), hint=self.hint), (self.message,))


def all_of(*checks: Callable[[], Any]) -> tuple[Any, ...]:
    """What these checks return. All are made, and what several of them find wrong is one error.

    Raises:
        UserError: of the kind of the first that is raised.
    """
    results, wrong = list[Any](), list[UserError]()
    for check in checks:
        try:
            results.append(check())
        except UserError as error:
            wrong.append(error)
    if len(wrong) > 1:
        said = [*map(str, wrong[:-1]), wrong[-1].message]
        raise type(wrong[0])("\n".join(said), hint=wrong[-1].hint)
    if wrong:
        raise wrong[0]
    return tuple(results)


def file_trouble(error: Exception, then: str) -> UserError | None:
    """A full disk or a file out of reach, as an error for the user; None for anything else.

    Args:
        then: what to do once that is mended.
    """
    if not isinstance(error, OSError) or (error.errno not in NO_SPACE and error.filename is None):
        return None
    full = error.errno in NO_SPACE
    where = "" if error.filename is None else f" {error.filename}"
    return UserError(
        f"can't {'write' if full else 'read or write'}{where}: {error.strerror}",
        hint=f"free some space; {then}" if full else f"once that is fixed, {then}",
    )


class ConfigError(UserError):
    """A key, value or combination in the configuration."""


class PluginError(UserError):
    """A plugin that is missing, broken, too old, or claims a taken name."""


class PlacementError(UserError):
    """A placement map that cannot be carried out."""


class CheckpointError(UserError):
    """A checkpoint or data set that is missing, damaged or of another shape."""


class AssetError(UserError):
    """Something the machine lacks: a GL library, a driver, simulator assets."""


class VerificationError(UserError):
    """A result that could not be reproduced."""

    exit_code = 1


class TrainingError(UserError):
    """Training diverged (NaN or inf)."""

    exit_code = 1


class MicroBatchError(TrainingError):
    """A micro-batch does not fit into memory, and the ranks can't make smaller ones on the spot."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a scheduler sends it: the run ends as it does on Ctrl-C, workers stopped."""


class WorkerError(UserError):
    """A worker process that failed, died or did not answer in time."""

    exit_code = 1


class StuckError(WorkerError):
    """Something we waited for did not come in time."""


class EnvError(WorkerError):
    """An env that returns invalid data: NaN or inf, arrays of the wrong shape, tasks it did not
    announce. No setting fixes it."""


class PolicyError(WorkerError):
    """A policy that returns invalid data: arrays of another type or shape than its spec says. No
    setting fixes it."""


class AlgorithmError(WorkerError):
    """An algorithm that returns invalid data: tensors of another type or shape than the contract
    says, advantages that are not finite. No setting fixes it."""


class SimulatorError(WorkerError):
    """A simulator that died or hangs. An env raises it when its episodes can be played again
    in a new simulator; one that raises an error by itself is not worth a second try."""


def listing(choices: Iterable[str]) -> str:
    """Names to choose from, sorted, with commas. More than :data:`FAMILY` that go on from another
    name, as its tasks do, are only counted."""
    left, said = sorted(choices), []
    while left:
        name = left.pop(0)
        family = [each for each in left if each.startswith(f"{name}_")]
        said.append(name)
        if len(family) > FAMILY:
            said.append(f"{len(family)} names {name}_...")
            left = [each for each in left if each not in family]
    return ", ".join(said)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """`" Did you mean 'x'?"` for the nearest choice, or an empty string."""
    near = nearest(name, choices)
    return "" if near is None else f" Did you mean {near!r}?"


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` probably misspells; None if none is close."""
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.6)
    return near[0] if near else None
