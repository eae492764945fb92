"""A run that is struck as a row of the fault table says, and what was seen afterwards."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parts.command import Command
from parts.disk import disk, filler
from parts.faulty import ORDERS
from parts.leftovers import Leftovers, look, shared_memory
from parts.outcome import differences, success
from parts.rows import HOLD_SECONDS, LIMIT, Row, orders
from rlcore.contracts.errors import CheckpointError
from rlcore.runs.checkpoint import load_checkpoint

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
    "experiment=quickstart_ppo",
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
NOISE = re.compile(r"Traceback|\(raylet|^\[\d{4}-|^[EWF]\d{4} |^\*\*\* |Exception ignored|^Fatal")


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
        said = [line.strip() for line in command.out if "recovered:" in line]
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
    if row.survived and "recovered:" not in result.happened:
        yield "it never said what it recovered from"
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
