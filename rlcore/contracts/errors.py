"""Define the errors that a user can fix. Depends on no other part of rlcore.

Every message names the thing, its value, the allowed values and the command to run next.
The command line prints a :class:`UserError` as a message, without a traceback. Any other exception
is a bug in rlcore and keeps its traceback.
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
"""Values of `errno` for no space: disk full, quota exceeded, file too large."""

MAX_LISTED_CHOICES = 8
"""Largest number of choices that an error lists in full."""

MAX_LISTED_FAMILY = 3
"""Largest number of names `NAME_...` that a message lists next to `NAME`, rather than counts."""


class RunWarning(UserWarning):
    """A warning for the user; nothing has failed. The command line prints it as one line, without
    its location in the code. Plugins may define subclasses."""


def warn(message: str, category: type[RunWarning] = RunWarning) -> None:
    """Warn the user. The location of the warning is the line outside rlcore that called rlcore."""
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe())]
    ours = [str(frame.f_globals.get("__name__")).startswith("rlcore") for frame in frames]
    outermost = len(ours) - 1 - ours[::-1].index(True)
    warnings.warn(message, category, stacklevel=outermost + 2)


class UserError(Exception):
    """Base class of all errors that an input causes, not a bug.

    Args:
        message: the problem: the thing, its value, the choices.
        hint: what to do next, preferably a command; printed on a separate line.

    Attributes:
        errors: the errors that :func:`join_errors` combined in this one; empty for a single error.
    """

    exit_code = 2
    errors: tuple[UserError, ...] = ()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # by default, pickle drops the keyword-only hint when an error is sent to another process
        return (partial(type(self), hint=self.hint), (self.message,))


@contextmanager
def collect_errors(errors: list[UserError]) -> Iterator[None]:
    """Append a :class:`UserError` raised in the block to `errors`, and continue after the block."""
    try:
        yield
    except UserError as error:
        errors.append(error)


def join_errors(errors: Sequence[UserError]) -> UserError:
    """Join one or more errors into one error of the first one's class.

    Messages with the same hint are grouped, so that each hint is printed once. An error that was
    raised for both sides of a run is in it once.
    """
    parts = [part for error in errors for part in error.errors or (error,)]
    single = [*{(part.message, part.hint): part for part in parts}.values()]
    if len(single) == 1:
        return single[0]
    # the last hint is the joined error's own; the others are part of its message
    *earlier, (last_hint, last_message) = group_by_hint(single).items()
    lines = [str(UserError(message, hint=hint)) for hint, message in earlier]
    error = type(single[0])("\n".join([*lines, last_message]), hint=last_hint)
    error.errors = tuple(single)
    return error


def group_by_hint(errors: Iterable[UserError]) -> dict[str | None, str]:
    """Return `{hint: messages}`: the messages of the errors with that hint, one per line."""
    messages_by_hint: dict[str | None, list[str]] = {}
    for error in errors:
        messages_by_hint.setdefault(error.hint, []).append(error.message)
    return {hint: "\n".join(messages) for hint, messages in messages_by_hint.items()}


def run_checks(*checks: Callable[[], Any]) -> tuple[Any, ...]:
    """Run all checks, even if some fail, and return their results.

    Raises:
        UserError: the errors of all failed checks, joined.
    """
    results: list[Any] = []
    errors: list[UserError] = []
    for check in checks:
        with collect_errors(errors):
            results.append(check())
    if errors:
        raise join_errors(errors)
    return tuple(results)


def file_error(error: Exception, then: str) -> UserError | None:
    """Return the :class:`UserError` for a full disk or an inaccessible file.

    Args:
        error: the exception that was raised.
        then: what the user should do after fixing the problem; part of the hint.

    Returns:
        None unless `error` is an OSError that reports missing space or names a file.
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
    """A key, a value or a combination of values in the configuration is invalid."""


class PluginError(UserError):
    """A plugin is missing, broken or too old, or registers a name that is already taken."""


class MissingPackageError(PluginError):
    """A package is missing that a component needs and that its plugin does not install."""


class PlacementError(UserError):
    """A placement map cannot be carried out on the machines."""


class CheckpointError(UserError):
    """A checkpoint or data set is missing, damaged or has unexpected shapes."""


class AssetError(UserError):
    """The machine lacks something: a GL library, a driver, simulator assets."""


class VerificationError(UserError):
    """A result could not be reproduced."""

    exit_code = 1


class TrainingError(UserError):
    """Training diverged (NaN or inf)."""

    exit_code = 1


class MicroBatchError(TrainingError):
    """A micro-batch does not fit into memory, and the ranks can't retry with a smaller one, because
    they run their forwards in lockstep."""


class Terminated(KeyboardInterrupt):
    """SIGTERM was received, e.g. from a scheduler. As on Ctrl-C, the run stops the workers and
    ends."""


class WorkerError(UserError):
    """A worker process failed, died or did not answer in time."""

    exit_code = 1


class StuckError(WorkerError):
    """A wait timed out."""


class EnvError(WorkerError):
    """An env returned invalid data: NaN or infinity, arrays of the wrong shape, tasks that its spec
    does not list. No setting fixes this; the env must be changed."""


class PolicyError(WorkerError):
    """A policy returned invalid data: arrays whose dtype or shape differs from its spec. No setting
    fixes this; the policy must be changed."""


class AlgorithmError(WorkerError):
    """An algorithm returned invalid data: tensors whose dtype or shape breaks the contract, or
    advantages that are not finite. No setting fixes this; the algorithm must be changed."""


class SimulatorError(WorkerError):
    """A simulator died or hangs. An env raises this error if its episodes can be replayed in a new
    simulator. For an exception that the simulator itself raised, an env raises another error,
    because a replay would raise it again."""


def format_choices(choices: Iterable[str]) -> str:
    """Return names to choose from, sorted and separated by commas.

    If more than :data:`MAX_LISTED_FAMILY` names have the form `NAME_...` for another name `NAME`,
    as the tasks of an env do, they are counted instead of listed.
    """
    remaining = sorted(choices)
    listed = []
    while remaining:
        name = remaining.pop(0)
        family = [choice for choice in remaining if choice.startswith(f"{name}_")]
        listed.append(name)
        if len(family) > MAX_LISTED_FAMILY:
            listed.append(f"{len(family)} names {name}_...")
            remaining = [choice for choice in remaining if choice not in family]
    return ", ".join(listed)


def choices_message(
    name: str, choices: Iterable[str], *, also: Iterable[str] = (), none: str = "none"
) -> str:
    """Return the end of an error message about a name that does not exist.

    It suggests the name that was probably meant, and lists the choices; if there are more than
    :data:`MAX_LISTED_CHOICES`, only their number and the nearest ones.

    Args:
        name: the name that does not exist.
        choices: the names that exist.
        also: further names that may be suggested although they are not choices.
        none: text in place of the list if there are no choices.
    """
    names = sorted(choices)
    suggestion = nearest_choice(name, [*names, *also])
    listing = f"choose from: {', '.join(names) or none}."
    if len(names) > MAX_LISTED_CHOICES:
        import difflib  # imported here because it is needed only if a name is not found

        near = difflib.get_close_matches(name, names, n=MAX_LISTED_CHOICES // 2, cutoff=0.4)
        others = ", ".join(choice for choice in near if choice != suggestion)
        listing = f"there are {len(names)}{', the nearest: ' if others else ''}{others}."
    if suggestion is None:
        return f"; {listing}"
    return f". Did you mean {suggestion!r}? {listing[0].upper()}{listing[1:]}"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest choice, or an empty string."""
    near = nearest_choice(name, choices)
    return "" if near is None else f" Did you mean {near!r}?"


def nearest_choice(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that `name` probably misspells, or None if no choice is similar.

    `name` itself is never returned: if an existing name is refused, it was not misspelled.
    """
    import difflib

    others = [choice for choice in choices if choice != name]
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.6)
    return near[0] if near else None
