"""Wait for workers under Ray, and raise one error that names the worker that failed, died or hangs.

The error on a timeout also shows where each worker was in its code.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import (
    ActorUnschedulableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)

from rlcore.contracts.errors import StuckError, UserError, WorkerError
from rlcore.utils.watchdog import Countdown
from rlcore.workers.worker_specs import OnCount
from rlcore_ray.channel import WorkerLost, queues_lost
from rlcore_ray.health import RayHealth
from rlcore_ray.queues import Queues

NODE_SECONDS = 90.0  # Ray takes about 65 s to give up a node that does not answer
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TRACEBACK = "Traceback (most recent call last):"
LAST_FRAME = re.compile(
    r'.*^  File "([^"]+)", line (\d+)[^\n]*\n(?: [^\n]*\n)*(\S[^\n]*)', re.M | re.S
)
"""The last frame of a traceback (file, line), and the first line of the exception."""
POLL_SECONDS = 0.5  # seconds between two polls of running totals
DEATH_SECONDS = 5.0  # seconds for Ray to report a death that another worker has noticed


class WorkerDied(WorkerLost):
    """A worker's process is gone, as reported by Ray."""


class PendingCalls:
    """Wait for calls of workers.

    Args:
        queues: actors with the queues; the hub has the running totals and the heartbeats.
        health: monitor of Ray; its `patience` is also the timeout for answers of the queues.
        patience: timeout in seconds for reading the heartbeats.
        log_of: returns the file for the output of a worker, by its name; None: it has none.
    """

    def __init__(
        self,
        queues: Queues,
        health: RayHealth,
        patience: float,
        log_of: Callable[[str], Path | None],
    ) -> None:
        self._queues = queues
        self._health = health
        self._patience = patience
        self._log_of = log_of

    def results(
        self,
        refs: Mapping[Any, str],
        timeout: float | None,
        doing: str,
        on_count: OnCount | None = None,
    ) -> list[Any]:
        """Wait for calls, and return their results in the order of `refs`.

        Args:
            refs: name of the worker by the reference of its call.
            timeout: seconds; None: no limit.
            doing: what the workers do, for error messages.
            on_count: called with the running totals while the calls run, and once at the end.

        Raises:
            StuckError: the timeout expired.
            WorkerError: a worker failed or died; or another UserError that a worker raised.
        """
        pending = list(refs)
        deadline = None if timeout is None else time.monotonic() + timeout
        pulse = _Pulse(self._queues, self._health.patience)
        while pending:
            with self._health.answering(doing, POLL_SECONDS):
                done, pending = ray.wait(pending, num_returns=1, timeout=POLL_SECONDS)
                self._health.check()
            for ref in done:
                self._check(ref, refs[ref], doing, {other: refs[other] for other in pending})
            with self._health.answering(doing):
                totals = pulse.totals() if pending else None
            if on_count is not None and totals is not None:
                on_count(totals)
            if pending and deadline is not None and time.monotonic() > deadline:
                late = ", ".join(refs[ref] for ref in pending)
                raise self._with_stacks(
                    StuckError(
                        f"{late} did not finish {doing!r} within {timeout:.0f} s",
                        hint="raise cluster.timeouts if the machine is slow, or run with "
                        "cluster.backend=local to look at it under pdb",
                    )
                )
        if on_count is not None:
            on_count(self.ask(self._queues.hub.totals.remote()))
        with self._health.answering(doing):
            return [self._result(ref, name, doing) for ref, name in refs.items()]

    def ask(self, ref: Any) -> Any:
        """Return the answer of a channel actor.

        Raises:
            WorkerError: the actor is gone, or does not answer in time.
        """
        with self._health.answering("the state of the queues", self._health.patience):
            try:
                return ray.get(ref, timeout=self._health.patience)
            except (RayActorError, GetTimeoutError) as error:
                raise queues_lost(error, self._health.patience) from None

    def break_off(self, reason: str) -> None:
        """End the conversation for all workers that wait in it; skip actors that are gone."""
        for ref in [actor.break_off.remote(reason) for actor in self._queues.all]:
            with contextlib.suppress(WorkerLost):
                self.ask(ref)

    def clear(self) -> None:
        """Empty the queues between conversations.

        The actor of an env worker may be gone with its node. That is ignored here, because the next
        worker that needs it raises.

        Raises:
            WorkerError: the hub is gone, or an actor does not answer in time.
        """
        refs = [(actor, actor.clear.remote()) for actor in self._queues.all]
        for actor, ref in refs:
            try:
                self.ask(ref)
            except WorkerLost:
                if actor is self._queues.hub:
                    raise

    def _check(self, ref: Any, name: str, doing: str, others: Mapping[Any, str]) -> None:
        """Raise the error of a finished call.

        On a timeout the error includes the stack of each worker. A worker may notice the death of
        another one before Ray reports it; then the death is raised.
        """
        try:
            with self._health.answering(doing):
                self._result(ref, name, doing)
        except StuckError as error:
            raise self._with_stacks(error) from None
        except WorkerDied:
            raise
        except WorkerError as error:
            raise self._death_among(others, doing) or error from None

    def _result(self, ref: Any, name: str, doing: str) -> Any:
        """Return the result of a call.

        Raises:
            WorkerDied: the worker's process is gone.
            UserError: raised by the worker; any other exception becomes a WorkerError with the
                traceback from the worker.
        """
        try:
            return ray.get(ref)
        except RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise error.cause from None
            text = _own_traceback(error)
            frame = LAST_FRAME.match(text)
            reason = f"{frame[3]} ({frame[1]}:{frame[2]})" if frame else text.splitlines()[-1]
            raise WorkerError(
                f"{name} failed while it was asked to {doing}: {reason}\n{text}",
                hint="cluster.backend=local runs the same code in one process, under pdb",
            ) from None
        except (RayActorError, ActorUnschedulableError, GetTimeoutError) as error:
            raise WorkerDied(died(name, doing), hint=self._hint(error, name)) from None

    def _hint(self, error: RayError, name: str) -> str:
        """Return Ray's reason of a death, and the file with the worker's output if it has any."""
        reason = f"Ray says: {str(error).splitlines()[0]}"
        log = self._log_of(name)
        with contextlib.suppress(OSError):  # not written, or not visible here
            if log is not None and log.stat().st_size:
                return f"{reason}; what the worker printed before: {log}"
        return reason

    def _death_among(self, others: Mapping[Any, str], doing: str) -> WorkerDied | None:
        """Wait up to :data:`DEATH_SECONDS` until Ray reports the death of one of these workers.

        Returns:
            the death; None if Ray reports none.
        """
        countdown = Countdown(DEATH_SECONDS)
        pending = list(others)
        while pending and not countdown.expired():
            with self._health.answering(doing, POLL_SECONDS):
                done, pending = ray.wait(pending, num_returns=1, timeout=POLL_SECONDS)
                self._health.check()
                for ref in done:
                    try:
                        self._result(ref, others[ref], doing)
                    except WorkerDied as death:
                        return death
                    except UserError:
                        continue  # it noticed the death too
        return None

    def _with_stacks(self, error: StuckError) -> StuckError:
        """Add the stacks of the workers' last heartbeats to an error."""
        try:
            with self._health.answering("the state of the queues", self._patience):
                beats = ray.get(self._queues.hub.beats.remote(), timeout=self._patience)
        except RayError:
            return error
        stacks = [
            f"{name}, last heard of {seconds:.0f} s ago, was at:\n{stack.rstrip()}"
            for name, (seconds, stack) in sorted(beats.items())
        ]
        return StuckError("\n".join([error.message, *stacks]), hint=error.hint)


class _Pulse:
    """Poll the queues for their totals without waiting for an answer."""

    def __init__(self, queues: Queues, patience: float) -> None:
        self._queues = queues
        self._patience = patience
        self._refs: list[Any] = []

    def totals(self) -> Mapping[str, float] | None:
        """Return the totals, if all actors have answered since the last call; else None.

        Raises:
            WorkerError: the hub is gone, or an actor has not answered for too long. An env worker's
                actor has more time: it may be gone with its node, which Ray takes a while to
                notice, and only workers that exchange messages with the env worker need it.
        """
        if not self._refs:
            self._left = Countdown(self._patience)
            self._longer = Countdown(max(self._patience, NODE_SECONDS))
            self._refs = [actor.totals.remote() for actor in self._queues.all]
        hub = self._refs[0]
        _, silent = ray.wait(self._refs, num_returns=len(self._refs), timeout=0)
        if silent:
            late = self._left.expired()
            too_late = self._longer.expired()
            if too_late or (late and hub in silent):
                raise queues_lost(GetTimeoutError(), self._patience)
            return None
        try:
            totals: Mapping[str, float] = ray.get(hub)  # all counts go to the hub
        except RayActorError as error:
            raise queues_lost(error, self._patience) from None
        self._refs = []
        return totals


def died(name: str, doing: str) -> str:
    """Return the error message for a worker whose process is gone."""
    return f"{name} died while it was asked to {doing} (killed, or out of memory?)"


def _own_traceback(error: RayTaskError) -> str:
    """Return the traceback as Python wrote it in the worker, including causes.

    Ray replaces each first line by a coloured header, and marks the frames that it leaves out.
    """
    lines: list[str] = []
    for line in COLOUR.sub("", str(error)).rstrip().splitlines():
        if line.startswith("ray::"):
            lines.append(TRACEBACK)
        elif lines[-1:] != [TRACEBACK] or line.strip(" ~^"):
            lines.append(line)
    return "\n".join(lines)
