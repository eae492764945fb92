"""Define the errors that a user can fix. Knows nothing of what raised them.

Every error names the thing, the value it got, what is allowed, and the next command.
The command line prints a :class:`UserError` as a message, never as a traceback;
anything else is a bug in rlcore and keeps its traceback.
"""

from __future__ import annotations

import errno
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system answers when there is no room: disk full, quota used up, file too large."""

FEW = 8
"""Choices that an error lists."""

FAMILY = 3
"""Names of one beginning that a message still lists."""


class RunWarning(UserWarning):
    """A warning for the user, though nothing has failed. The command line prints it as one line,
    without the place in the code; plugins may derive their own."""


def warn(message: str, category: type[RunWarning] = RunWarning) -> None:
    """Warn the user; from Python, at the line of theirs that called rlcore."""
    names = (one.f_globals.get("__name__") for one, _ in traceback.walk_stack(sys._getframe()))
    ours = [str(name).startswith("rlcore") for name in names]
    warnings.warn(message, category, stacklevel=len(ours) + 1 - ours[::-1].index(True))


class UserError(Exception):
    """Base of all errors caused by an input, not by a bug.

    Args:
        message: what is wrong: the thing, its value, the choices.
        hint: what to do next, best a command. Printed on its own line.

    Attributes:
        several: the single errors that this one joins; empty for one alone.
    """

    exit_code = 2
    several: tuple[UserError, ...] = ()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # pickle would drop the keyword-only hint on the way between processes
        return (partial(type(self), hint=self.hint), (self.message,))


@contextmanager
def collecting(errors: list[UserError]) -> Iterator[None]:
    """Add an error to the list instead of ending by it."""
    try:
        yield
    except UserError as error:
        errors.append(error)


def joined(errors: Sequence[UserError]) -> UserError:
    """Make one error of at least one, of the kind of the first. Those with one hint share it."""
    single = [each for error in errors for each in error.several or (error,)]
    if len(single) == 1:
        return single[0]
    *first, (hint, last) = by_hint(single).items()
    lines = [str(UserError(message, hint=its)) for its, message in first]
    error = type(single[0])("\n".join([*lines, last]), hint=hint)
    error.several = tuple(single)
    return error


def by_hint(errors: Iterable[UserError]) -> dict[str | None, str]:
    """Join the messages of errors that have the same hint, and return them by it."""
    found: dict[str | None, list[str]] = {}
    for error in errors:
        found.setdefault(error.hint, []).append(error.message)
    return {hint: "\n".join(messages) for hint, messages in found.items()}


def all_of(*checks: Callable[[], Any]) -> tuple[Any, ...]:
    """Make all checks and return their results.

    Raises:
        UserError: what they found wrong, joined.
    """
    results, wrong = list[Any](), list[UserError]()
    for check in checks:
        with collecting(wrong):
            results.append(check())
    if wrong:
        raise joined(wrong)
    return tuple(results)


def file_trouble(error: Exception, then: str) -> UserError | None:
    """Return a full disk or a file out of reach as an error for the user; None for anything else.

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


class PackageMissing(PluginError):
    """A package that a component needs and its plugin does not bring."""


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
    """A wait that timed out."""


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
    """List names to choose from, sorted, with commas. More than :data:`FAMILY` that go on from
    another name, as its tasks do, are only counted."""
    left, said = sorted(choices), []
    while left:
        name = left.pop(0)
        family = [each for each in left if each.startswith(f"{name}_")]
        said.append(name)
        if len(family) > FAMILY:
            said.append(f"{len(family)} names {name}_...")
            left = [each for each in left if each not in family]
    return ", ".join(said)


def choosing(
    name: str, choices: Iterable[str], *, also: Iterable[str] = (), none: str = "none"
) -> str:
    """Say how an error goes on behind a name that does not exist: what was probably meant, then the
    choices, or of more than :data:`FEW` the nearest.

    Args:
        also: what may have been meant, and is no choice.
        none: in place of the choices where there are none.
    """
    names = sorted(choices)
    meant = nearest(name, [*names, *also])
    said = f"choose from: {', '.join(names) or none}."
    if len(names) > FEW:
        import difflib  # only where a name is not found

        near = difflib.get_close_matches(name, names, n=FEW // 2, cutoff=0.4)
        others = ", ".join(each for each in near if each != meant)
        said = f"there are {len(names)}{', the nearest: ' if others else ''}{others}."
    if meant is None:
        return f"; {said}"
    return f". Did you mean {meant!r}? {said[0].upper()}{said[1:]}"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest choice, or an empty string."""
    near = nearest(name, choices)
    return "" if near is None else f" Did you mean {near!r}?"


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Find the choice that `name` probably misspells; None if none is close, never `name` itself:
    where that is refused although it exists, the reason is another."""
    import difflib

    others = [choice for choice in choices if choice != name]
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.6)
    return near[0] if near else None
