"""On resume, check that the new limits leave something to do.

Knows what was done and what is requested, and nothing of the files of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlcore.checks.limits import OFF
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import RunConfig, RunnerConfig
from rlcore.contracts.errors import ConfigError
from rlcore.run_folder.folder import RunFolder


@dataclass(frozen=True)
class Done:
    """The progress of a run.

    Attributes:
        updates: policy updates.
        env_steps: those of training.
        finished: whether it came to its end, with evaluation and summary.
        stopped: why a plugin ended its training; empty: none did, or the run is to go on anyway.
        checkpoint: where it stands.
    """

    updates: int
    env_steps: int
    finished: bool
    stopped: str
    checkpoint: Path


def goes_on(runner: RunnerConfig, updates: int, env_steps: int) -> bool:
    """Whether there is a further update to make."""
    return (runner.max_epochs == OFF or updates < runner.max_epochs) and (
        runner.max_steps == OFF or env_steps < runner.max_steps
    )


def check_limits(config: RunConfig, folder: RunFolder, done: Done) -> None:
    """Refuse limits under which a run can't go on.

    Args:
        folder: of the run; its configuration says which limits it had so far.

    Raises:
        ConfigError: limits below what was done, or nothing is left to do: it reached them, or a
            plugin stopped it.
    """
    limits = list(_limits(config.runner, done))
    for key, limit, count, what in limits:
        # the last update may lead beyond the limit that ended training then
        if count > limit and not (key == "max_steps" and limit == _limit_so_far(folder, key)):
            raise ConfigError(
                f"runner.{key}={limit} is below what {folder.path} has done: {count} {what}",
                hint=f"runner.{key}={count} or more; an earlier state: rlcore resume "
                f"{folder.checkpoints}/step_NNNNNN",
            )
    if done.finished and done.stopped:
        raise ConfigError(
            f"{folder.path} is finished: a plugin stopped training after update {done.updates}: "
            f"{done.stopped}",
            hint=f"to train it further anyway: rlcore resume {done.checkpoint}",
        )
    if done.finished and not goes_on(config.runner, done.updates, done.env_steps):
        key, limit, count, what = next(each for each in limits if each[2] >= each[1])
        raise ConfigError(
            f"{folder.path} is finished: {count} of {limit} {what} are done",
            hint=f"rlcore resume {folder.path} runner.{key}={count * 2}",
        )


def _limits(runner: RunnerConfig, done: Done) -> Iterator[tuple[str, int, int, str]]:
    """(key, limit, done, of what) of each limit that is on."""
    if runner.max_epochs != OFF:
        yield "max_epochs", runner.max_epochs, done.updates, "updates"
    if runner.max_steps != OFF:
        yield "max_steps", runner.max_steps, done.env_steps, "env steps"


def _limit_so_far(folder: RunFolder, key: str) -> object:
    """A limit of the run before the change; None if the configuration lacks it."""
    runner = read_mapping(folder.config).get("runner")
    return runner.get(key) if isinstance(runner, dict) else None


def is_evaluation(folder: RunFolder) -> bool:
    """Whether the folder is that of an evaluation, which trains nothing."""
    runner = read_mapping(folder.config).get("runner")
    return isinstance(runner, dict) and runner.get("only_eval") is True
