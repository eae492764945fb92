"""Check each number of a configuration against the range that its key declares. Light."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig

OFF = -1


def violations(section: object) -> Iterator[str]:
    """Yield a sentence for each number in a section that is outside its key's range.

    Null counts as in range.
    """
    for key in schema_tree.walk(section):
        for value in schema_tree.values_of(key.value):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if value not in key.range:
                largest = key.range.magnitude_limit
                bound = f"at most {largest}" if value > largest else key.range
                bound = f"at least -{largest}" if value < -largest else bound
                yield f"{key.path} must be {bound}, got {value}"


def videos(config: RunConfig) -> Iterator[str]:
    """Yield a sentence for each side that saves videos, but of less than one episode."""
    for side, env in config.env.sides.items():
        video = env.video_cfg
        if video.save_video and video.num_episodes < 1:
            yield (
                f"env.{side}.video_cfg.num_episodes must be at least 1 with save_video, "
                f"got {video.num_episodes}"
            )
