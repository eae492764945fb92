"""The rows of the fault table: who is struck, when and how, and what is promised."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parts.command import Command
from parts.disk import fill

APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
HANG_SECONDS = 20.0
RAY_SECONDS = 8.0  # less than what is left of the run: a stopped gcs holds up nobody before its end
PATIENT = f"(timeouts.ray={RAY_SECONDS:.0f})"
HOLD_SECONDS = 0.3  # so long someone is at work before the strike: it lands in the middle
LIMIT = 600.0  # seconds for anything that is waited for


@dataclass(frozen=True)
class Row:
    """A fault.

    Attributes:
        what: in words.
        strike: does it to the command.
        at_work: who is in which of its methods when it comes.
        survived: the run is to go on by itself, and to say so.
        ends_well: it is to go on as if nothing had been.
        exit_code: the run's.
        error: pattern of the one error; None: there is to be none.
        traceback: the error quotes the worker's own.
        overrides: changes to the run.
        small_disk: the run's folder is on a small file system.
        simulators: it needs processes that the toy env has not.
    """

    what: str
    strike: Callable[[Command], object]
    at_work: tuple[str, str] = ("EnvWorker", "talk")
    survived: bool = False
    ends_well: bool = False
    exit_code: int = 0
    error: str | None = None
    traceback: bool = False
    overrides: Sequence[str] = ()
    small_disk: bool = False
    simulators: bool = False


def _kill_worker(kind: str) -> Callable[[Command], None]:
    return lambda command: command.worker(kind).kill()


def _order(word: str) -> Callable[[Command], object]:
    return lambda command: orders(command.folder).write_text(word, encoding="utf-8")


def _interrupt_twice(command: Command) -> None:
    """As a terminal does: to the whole process group."""
    os.killpg(command.pid, signal.SIGINT)
    time.sleep(HOLD_SECONDS)
    os.killpg(command.pid, signal.SIGINT)


def _signal_ray(name: str, number: signal.Signals) -> Callable[[Command], None]:
    """To one of Ray's own processes, or to the actor that holds the queues."""
    return lambda command: command.ray(name).send_signal(number)


def _stop_and_ask_twice(command: Command) -> None:
    """The raylet hangs, and the user loses patience: long before any timeout."""
    command.ray("raylet").suspend()
    for _ in range(2):
        time.sleep(HOLD_SECONDS)
        os.kill(command.pid, signal.SIGTERM)


def _resume_too(command: Command) -> None:
    """Resume the run while it runs; the second one has to refuse, and leave all as it is."""
    words = ["resume", str(command.folder)]
    other = Command(words, command.folder, command.environment)
    try:
        code = other.wait(LIMIT)
        said = "".join(other.err)
    finally:
        other.end()
    if code != 2 or said.count("error:") != 1:
        raise RuntimeError(f"a second resume of a running run ended with {code}:\n{said}")


def orders(folder: Path) -> Path:
    """The file that tells the algorithm of a run to fail."""
    return folder.with_name(f"{folder.name}.orders")


ROWS = {
    "simulator-killed": Row(
        "simulator process, SIGKILL",
        lambda command: command.simulator().kill(),
        survived=True,
        simulators=True,
    ),
    "simulator-hangs": Row(
        f"simulator process, SIGSTOP (simulator_timeout={HANG_SECONDS:.0f})",
        lambda command: command.simulator().suspend(),
        survived=True,
        simulators=True,
        overrides=[f"env.{side}.simulator_timeout={HANG_SECONDS}" for side in ("train", "eval")],
    ),
    "env-worker": Row("env worker, SIGKILL", _kill_worker("EnvWorker"), survived=True),
    "rollout-worker": Row(
        "rollout worker, SIGKILL",
        _kill_worker("RolloutWorker"),
        ("RolloutWorker", "talk"),
        exit_code=1,
        error="error: rollout worker 0 died",
        overrides=[APART],
    ),
    "actor": Row(
        "actor, SIGKILL",
        _kill_worker("ActorWorker"),
        ("ActorWorker", "call"),
        exit_code=1,
        error="error: actor worker 0 died",
        overrides=[APART],
    ),
    "driver": Row(
        "driver, SIGKILL",
        lambda command: os.kill(command.pid, signal.SIGKILL),
        exit_code=-signal.SIGKILL,
    ),
    **{
        f"{name}-{how}": Row(
            f"{words}, {number.name}" + (f" {PATIENT}" if how == "stopped" else ""),
            _signal_ray(process, number),
            exit_code=1,
            error=f"error: {said}",
            overrides=[f"cluster.timeouts.ray={RAY_SECONDS}"],
        )
        for name, process, words, said in (
            ("queues", "ChannelActor", "queues between workers", "the queues between workers"),
            ("raylet", "raylet", "Ray's raylet", "Ray's raylet"),
            ("gcs", "gcs_server", "Ray's gcs", "Ray's gcs_server"),
        )
        for how, number in (("stopped", signal.SIGSTOP), ("killed", signal.SIGKILL))
    },
    "raylet-sigterm-twice": Row(
        "Ray's raylet, SIGSTOP; then SIGTERM twice to the driver",
        _stop_and_ask_twice,
        exit_code=143,
        error="rlcore: terminated",
    ),
    "sighup": Row(
        "SIGHUP to all (the terminal is closed)",
        lambda command: os.killpg(command.pid, signal.SIGHUP),
        exit_code=129,
        error="rlcore: terminated",
    ),
    "stdout-lost": Row(
        "standard output lost (| head -1)",
        lambda command: command.close_output(),
        ends_well=True,
    ),
    "two-resumes": Row("resumed while it runs", _resume_too, ends_well=True),
    "nan": Row(
        "NaN in the loss from now on",
        _order("nan"),
        exit_code=1,
        error="error: update 3 trained nothing",
    ),
    "exception": Row(
        "exception in the loss, inside a worker",
        _order("raise"),
        exit_code=1,
        error="error: rollout.actor worker 0 failed while it was asked to update",
        traceback=True,
    ),
    "full-disk": Row(
        "full disk",
        lambda command: fill(command.folder),
        exit_code=2,
        error="error: can't write",
        small_disk=True,
    ),
    "sigterm": Row(
        "SIGTERM to the driver",
        lambda command: os.kill(command.pid, signal.SIGTERM),
        exit_code=143,
        error="rlcore: terminated",
    ),
    "ctrl-c-twice": Row(
        "Ctrl-C twice", _interrupt_twice, exit_code=130, error="rlcore: interrupted"
    ),
}
