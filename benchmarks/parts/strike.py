"""The rows of the fault table: who is struck, when and how, and what was seen afterwards."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parts.command import Command
from parts.disk import disk, fill, filler
from parts.faulty import ORDERS
from parts.leftovers import Leftovers, look, shared_memory
from parts.outcome import differences, success
from rlcore.errors import CheckpointError
from rlcore.track.checkpoint import load_checkpoint

UPDATES, STRUCK_AFTER = 4, 2
EQUAL = (
    "algorithm=faulty",
    "sft.enabled=false",
    f"runner.max_epochs={UPDATES}",
    "runner.save_interval=1",
    "runner.val_before_train=false",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=8",
    "env.eval.trials_per_task=8",
    "env.eval.video_cfg.save_video=false",
    "actor.micro_batch_size=64",
    "actor.global_batch_size=64",
    "rollout.forward_batch=4",  # with equally many threads: the same to the bit wherever it runs
    "cluster.torch_threads=1",
)
QUICKSTART = (
    "experiment=quickstart",
    *EQUAL,
    "env.train.rollout_epoch=2",
    "algorithm.critic_warmup_updates=0",
)
TOY = (
    "env=toy",
    "model=toy",
    *EQUAL,
    "env.train.rollout_epoch=40",  # long enough to be struck
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
)
APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
HANG_SECONDS = 20.0
RAY_SECONDS = 8.0  # less than what is left of the run: a stopped gcs holds up nobody before its end
PATIENT = f"(timeouts.ray={RAY_SECONDS:.0f})"
HOLD_SECONDS = 0.3  # so long someone is at work before the strike: it lands in the middle
LIMIT = 600.0  # seconds for anything that is waited for
NOISE = re.compile(r"Traceback|\(raylet|^\[\d{4}-|^[EWF]\d{4} |^\*\*\* |Exception ignored|^Fatal")


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


@dataclass(frozen=True)
class Result:
    """What was seen. Seconds are from the strike.

    Attributes:
        what: was done.
        happened: the run's own words.
        exit_code: of the run.
        seconds: until the next update was done, or the run had ended.
        checkpoint: updates done at the last whole checkpoint when the run had ended.
        resumed_after: seconds from `rlcore resume` to its first update; None without one.
        success: of the evaluation afterwards.
        differences: what is not equal to the undisturbed run.
        errors, noise: lines of an error, and lines nobody needs, that were printed.
        stderr: all of it.
        leftovers: see there.
        broken: promises that were not kept.
    """

    what: str
    happened: str
    exit_code: int
    seconds: float
    checkpoint: int | None
    resumed_after: float | None
    success: float | None
    differences: list[str]
    errors: list[str]
    noise: list[str]
    stderr: list[str]
    leftovers: Leftovers
    broken: list[str]

    @property
    def verdict(self) -> str:
        return "as promised" if not self.broken else "BROKEN: " + "; ".join(self.broken)


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


class Trial:
    """Makes runs that begin alike, and strikes them.

    Args:
        work: folder to work in.
        words: of the command line that all of them share.
    """

    def __init__(self, work: Path, words: Sequence[str]) -> None:
        self._work = work
        self._words = words
        self._path = _install(work / "plugin")
        self.whole = work / "whole"

    def undisturbed(self, timeout: float) -> None:
        """The run that the others are compared with."""
        command = self._train(self.whole, ())
        try:
            if command.wait(timeout) != 0:
                raise RuntimeError("".join(command.err))
        finally:
            command.end()

    def run(self, row: Row) -> Result:
        """Make a run, strike it, see what becomes of it."""
        folder = self._work / "row" / "run"
        with disk(folder.parent, row.small_disk):
            before = shared_memory()
            command = self._train(folder, row.overrides)
            try:
                return self._struck(row, command, before)
            finally:
                command.end()

    def _struck(self, row: Row, command: Command, before: frozenset[str]) -> Result:
        command.until(lambda: command.saved() >= STRUCK_AFTER, LIMIT, "a checkpoint")
        command.until_busy(*row.at_work, seconds=HOLD_SECONDS, timeout=LIMIT)
        done = command.updates()
        row.strike(command)
        struck = time.monotonic()
        goes_on = row.survived or row.ends_well
        if goes_on:
            command.until(lambda: command.updates() > done, LIMIT, "the next update")
            seconds = time.monotonic() - struck
        exit_code = command.wait(LIMIT)
        ended = time.monotonic()
        if not goes_on:
            seconds = ended - struck
        leftovers = look(command, ended, before)
        checkpoint = _checkpoint(command.folder)
        for made in (orders(command.folder), filler(command.folder)):
            made.unlink(missing_ok=True)
        resumed_after = None if goes_on else self._resume(command.folder)
        errors = [line.strip() for line in command.err if re.match("error:|rlcore:", line)]
        said = [line.strip() for line in command.out if "survived:" in line]
        noise = [line.rstrip() for line in [*command.out, *command.err] if NOISE.search(line)]
        finished = (command.folder / "summary.json").is_file()
        result = Result(
            what=row.what,
            happened=" ".join([*said, *errors])
            or ("went on" if goes_on and finished else "died without a word"),
            exit_code=exit_code,
            seconds=seconds,
            checkpoint=checkpoint,
            resumed_after=resumed_after,
            success=success(command.folder) if finished else None,
            differences=differences(command.folder, self.whole) if finished else ["unfinished"],
            errors=errors,
            noise=noise,
            stderr=[line.rstrip() for line in command.err],
            leftovers=leftovers,
            broken=[],
        )
        result.broken.extend(broken(row, result))
        return result

    def _resume(self, folder: Path) -> float | None:
        """Seconds from `rlcore resume` to its first update; None if it failed."""
        begin = time.monotonic()
        done = load_checkpoint(folder).step
        command = Command(["resume", str(folder)], folder, self._environment(folder))
        try:
            command.until(lambda: bool(command.out), LIMIT, "a word")
            command.until(lambda: _resumed(command), LIMIT, "the checkpoint to be loaded")
            command.until(lambda: command.updates() > done, LIMIT, "an update")
            seconds = time.monotonic() - begin
            return seconds if command.wait(LIMIT) == 0 else None
        except RuntimeError as error:
            print(error)
            return None
        finally:
            command.end()

    def _train(self, folder: Path, overrides: Sequence[str]) -> Command:
        words = [
            "train",
            *self._words,
            f"runner.logger.log_path={folder.parent}",
            f"runner.logger.experiment_name={folder.name}",
            *overrides,
        ]
        return Command(words, folder, self._environment(folder))

    def _environment(self, folder: Path) -> dict[str, str]:
        return {"PYTHONPATH": self._path, ORDERS: str(orders(folder))}


def broken(row: Row, result: Result) -> Iterator[str]:
    """What docs/faults.md promises of this row and was not so."""
    if result.exit_code != row.exit_code:
        yield f"exit code {result.exit_code} instead of {row.exit_code}"
    if len(result.errors) != (row.error is not None):
        yield f"{len(result.errors)} errors: {result.errors}"
    if row.error is not None and not any(re.match(row.error, line) for line in result.errors):
        yield f"no error like {row.error!r}"
    if row.traceback and not any(line.lstrip().startswith('File "') for line in result.stderr):
        yield "the error does not quote the worker's own traceback"
    if row.survived and "survived:" not in result.happened:
        yield "it never said what it survived"
    goes_on = row.survived or row.ends_well
    if not goes_on and (result.checkpoint or 0) < STRUCK_AFTER:
        yield "the checkpoint is gone"
    if not goes_on and result.resumed_after is None:
        yield "it could not be resumed"
    if result.differences:
        yield f"differs from the undisturbed run: {', '.join(result.differences)}"
    if result.noise:
        yield f"noise: {result.noise}"
    if not result.leftovers.clean:
        yield f"left behind: {result.leftovers}"


def _checkpoint(folder: Path) -> int | None:
    try:
        return load_checkpoint(folder).step
    except CheckpointError:
        return None


def _resumed(command: Command) -> bool:
    return any("resumed after update" in line for line in command.out)


def _install(folder: Path) -> str:
    """Make the plugin of this benchmark known to the commands; returns their module path."""
    facts = folder / "rlcore_faulty-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: rlcore-faulty\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[rlcore.plugins]\nfaulty = parts.faulty_plugin\n")
    paths = [str(folder), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)
