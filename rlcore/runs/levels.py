"""Compute how much training a run needed until its policy first reached given success rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypedDict

from rlcore.utils.durations import update_seconds

LEVELS = (0.5, 0.8, 0.9)
EPISODES = 96
"""Minimum number of episodes over which training success is averaged.

The mean is over the latest updates that have at least this many episodes together, because a few
episodes may reach a level by chance.
"""
EVALUATIONS = {"eval/success_once": "evaluation", "eval/validation/success_once": "validation"}


class Reached(TypedDict):
    """The training up to the update at which a level of success was first reached.

    `update`, `episodes` and `env_steps` are totals of reinforcement learning. `seconds` is its wall
    time (rollouts, updates and syncs), without evaluations and supervised training. `success` is
    the measured rate, at least the level. `by` says which episodes measured it: "evaluation",
    "validation" or "training"; actions of training episodes include exploration.
    """

    update: int
    episodes: int
    env_steps: int
    seconds: float
    success: float
    by: str


def levels_reached(lines: Iterable[Mapping[str, float | None]]) -> dict[str, Reached | None]:
    """Find when each level of success in :data:`LEVELS` was first reached.

    Args:
        lines: lines of `metrics.jsonl`. If a metric was logged twice for a step, the later value
            counts.

    Returns:
        When each level was reached, by the level as text, e.g. "0.5"; None if it never was.
    """
    steps: dict[int, dict[str, float]] = {}
    for line in lines:
        values = {name: value for name, value in line.items() if value is not None}
        steps.setdefault(int(values["step"]), {}).update(values)
    reached: dict[str, Reached | None] = {f"{level:g}": None for level in LEVELS}
    episodes = 0
    env_steps = 0.0
    seconds = 0.0
    latest: deque[tuple[float, float]] = deque()  # (episodes, success rate) of the latest updates

    def record(update: int, success: float, by: str) -> None:
        for level in LEVELS:
            if success >= level and reached[f"{level:g}"] is None:
                reached[f"{level:g}"] = {
                    "update": update,
                    "episodes": episodes,
                    "env_steps": round(env_steps),
                    "seconds": round(seconds, 3),
                    "success": round(success, 6),
                    "by": by,
                }

    for update, line in sorted(steps.items()):
        finished = line.get("env/episodes", 0.0)
        episodes += int(finished)
        env_steps += finished * line.get("env/episode_len", 0.0)
        seconds += update_seconds(line)
        if finished and "env/success_once" in line:
            latest.append((finished, line["env/success_once"]))
            while sum(n for n, _ in latest) - latest[0][0] >= EPISODES:
                latest.popleft()
            total = sum(n for n, _ in latest)
            if total >= EPISODES:
                record(update, sum(n * rate for n, rate in latest) / total, "training")
        for name, by in EVALUATIONS.items():
            if name in line:
                record(update, line[name], by)
    return reached
