"""Derive the interval of checkpoints, and check the number of filmed episodes. Light."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore.config.schema import RunConfig, RunnerConfig

OFF = -1
SHARE = 10
"""By default a killed run loses at most about 1/`SHARE` of its updates or env steps."""


def checkpoint_interval(runner: RunnerConfig) -> int | None:
    """Return the number of updates between checkpoints.

    None if there are no checkpoints during training, or if env steps decide when they are due
    (:func:`rlcore.training.limits.checkpoint_is_due`).
    """
    if runner.save_interval is not None:
        return None if runner.save_interval == OFF else runner.save_interval
    if runner.max_epochs != OFF:
        return max(1, runner.max_epochs // SHARE)
    return SHARE if runner.max_steps == OFF else None


def judged_checkpoints(runner: RunnerConfig, updates: int) -> int:
    """Return how many checkpoints of a run were judged on validation starts.

    A regular checkpoint, or the last one, is judged by an evaluation after its own update.

    Args:
        runner: settings that :func:`rlcore.checks.updates.checkpoints_are_validated` accepts.
        updates: number of updates done.
    """
    interval = checkpoint_interval(runner)
    return sum(
        update % runner.val_check_interval == 0
        and (update == updates or (interval is not None and update % interval == 0))
        for update in range(1, updates + 1)
    )


def videos(config: RunConfig) -> Iterator[str]:
    """Yield an error message for each side that saves videos of less than one episode."""
    for side, env in config.env.sides.items():
        video = env.video_cfg
        if video.save_video and video.num_episodes < 1:
            yield (
                f"env.{side}.video_cfg.num_episodes must be at least 1 with save_video, "
                f"got {video.num_episodes}"
            )
