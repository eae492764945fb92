"""Compare a run with its limits: is there more to do, is a checkpoint due, may it be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlcore.checks.limits import OFF
from rlcore.config.schema import RunConfig, RunnerConfig
from rlcore.config.schema_tree import find
from rlcore.contracts.errors import ConfigError
from rlcore.run_folder.checkpoint import Checkpoint
from rlcore.run_folder.folder import RunFolder


def goes_on(runner: RunnerConfig, updates: int, env_steps: int) -> bool:
    """Whether there is a further update to make."""
    return all(count < limit for _, limit, count, _ in _limits(runner, updates, env_steps))


SHARE = 10
"""A run that is killed loses at most one of so many parts of its updates."""


def checkpoint_interval(runner: RunnerConfig) -> int | None:
    """Return the updates between checkpoints; None: their number decides nothing."""
    if runner.save_interval is not None:
        return None if runner.save_interval == OFF else runner.save_interval
    if runner.max_epochs != OFF:
        return max(1, runner.max_epochs // SHARE)
    return SHARE if runner.max_steps == OFF else None


def checkpoint_is_due(
    runner: RunnerConfig, updates: int, env_steps: int, env_steps_before: int
) -> bool:
    """Return whether a checkpoint is made after an update, whatever happens. It depends on the
    update alone, not on earlier checkpoints, so it is the same in a run that was resumed.

    Args:
        updates, env_steps: done so far.
        env_steps_before: those before this update.
    """
    interval = checkpoint_interval(runner)
    if interval is not None and updates % interval == 0:
        return True
    if runner.save_interval is not None or runner.max_steps == OFF:
        return False
    # One for each half of a part that was passed: two checkpoints are less than a half and an
    # update apart, and where an update is more than a half, there is one after each.
    halves = 2 * SHARE
    return env_steps * halves // runner.max_steps > env_steps_before * halves // runner.max_steps


def check_limits(
    config: RunConfig, folder: RunFolder, so_far: Mapping[str, Any], at: Checkpoint, *, named: bool
) -> None:
    """Refuse limits under which a run can't go on.

    Args:
        folder: of the run.
        so_far: its configuration, which says which limits it had.
        at: where it stands.
        named: whether that checkpoint was requested: then it goes on although a plugin ended its
            training.

    Raises:
        ConfigError: limits below what was done, or nothing is left to do: it reached them, or a
            plugin stopped it.
    """
    env_steps = at.state["totals"]["env_steps"]
    limits = list(_limits(config.runner, at.step, env_steps))
    for key, limit, count, what in limits:
        # the last update may lead beyond the limit that ended training then
        if count > limit and not (key == "max_steps" and limit == find(so_far, f"runner.{key}")):
            raise ConfigError(
                f"runner.{key}={limit} is below what {folder.path} has done: {count} {what}",
                hint=f"runner.{key}={count} or more; an earlier state: rlcore resume "
                f"{folder.checkpoints}/step_NNNNNN",
            )
    if not folder.summary.is_file():
        return
    stopped = at.state["steering"]["stopped"]
    if stopped and not named:
        raise ConfigError(
            f"{folder.path} is finished: a plugin stopped training after update {at.step}: "
            f"{stopped}",
            hint=f"to train it further anyway: rlcore resume {at.path}",
        )
    if not goes_on(config.runner, at.step, env_steps):
        key, limit, count, what = next(each for each in limits if each[2] >= each[1])
        raise ConfigError(
            f"{folder.path} is finished: {count} of {limit} {what} are done",
            hint=f"rlcore resume {folder.path} runner.{key}={count * 2}",
        )


def _limits(
    runner: RunnerConfig, updates: int, env_steps: int
) -> Iterator[tuple[str, int, int, str]]:
    """(key, limit, done, of what) of each limit that is on."""
    if runner.max_epochs != OFF:
        yield "max_epochs", runner.max_epochs, updates, "updates"
    if runner.max_steps != OFF:
        yield "max_steps", runner.max_steps, env_steps, "env steps"
