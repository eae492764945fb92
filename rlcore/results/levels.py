"""Say what a run had spent when its policy first succeeded so often."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypedDict

LEVELS = (0.5, 0.8, 0.9)
EPISODES = 96
"""Training success is the mean over the last updates with at least so many episodes together: a
few episodes reach a level by chance."""
EVALUATIONS = {"eval/success_once": "evaluation", "eval/validation/success_once": "validation"}
SPENT = ("time/rollout", "time/update", "time/sync")


class Reached(TypedDict):
    """Updates, episodes and env steps of training, and their wall seconds, evaluations and
    supervised training apart, up to when success was `success`; `by`: "evaluation", "validation" or
    "training" episodes, which explore."""

    update: int
    episodes: int
    env_steps: int
    seconds: float
    success: float
    by: str


def levels_reached(lines: Iterable[Mapping[str, float | None]]) -> dict[str, Reached | None]:
    """By level of success, as text, when it was first reached; None: never.

    Args:
        lines: of `metrics.jsonl`; of a step that was logged twice the later counts.
    """
    steps: dict[int, dict[str, float]] = {}
    for line in lines:
        known = {name: value for name, value in line.items() if value is not None}
        steps.setdefault(int(known["step"]), {}).update(known)
    found: dict[str, Reached | None] = {f"{level:g}": None for level in LEVELS}
    episodes, env_steps, seconds = 0, 0.0, 0.0
    late: deque[tuple[float, float]] = deque()

    def see(update: int, success: float, by: str) -> None:
        for level in LEVELS:
            if success >= level and found[f"{level:g}"] is None:
                found[f"{level:g}"] = {
                    "update": update,
                    "episodes": episodes,
                    "env_steps": round(env_steps),
                    "seconds": round(seconds, 3),
                    "success": round(success, 6),
                    "by": by,
                }

    for update, line in sorted(steps.items()):
        played = line.get("env/episodes", 0.0)
        episodes += int(played)
        env_steps += played * line.get("env/episode_len", 0.0)
        seconds += sum(line.get(name, 0.0) for name in SPENT)
        if played and "env/success_once" in line:
            late.append((played, line["env/success_once"]))
            while sum(n for n, _ in late) - late[0][0] >= EPISODES:
                late.popleft()
            total = sum(n for n, _ in late)
            if total >= EPISODES:
                see(update, sum(n * rate for n, rate in late) / total, "training")
        for name, by in EVALUATIONS.items():
            if name in line:
                see(update, line[name], by)
    return found
