"""Name metrics, and compute those of a rollout and its episodes, which need no learner.

Canonical names are `train/actor/*`, `train/critic/*`, `rollout/*`, `env/*`, `eval/*`, `time/*`.
Light: tensors pass through, their library isn't imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rlcore.contracts.episodes import mean_infos

if TYPE_CHECKING:
    from rlcore.contracts.episodes import EpisodeOutcome
    from rlcore.contracts.trajectory import Trajectory

LINE = ("step", "time")
"""Fields of each line of `metrics.jsonl`, which no metric may be named as."""
MEASURED = ("env/", "eval/", "time/")
"""How metrics begin that the loop measures, and no algorithm."""
MICRO_BATCH_SIZE = "train/actor/micro_batch_size"
"""Logged where memory ran out: the size that fits."""


def rollout_metrics(trajectory: Trajectory) -> dict[str, float]:
    """Of the decisions of a rollout.

    `rollout/rewards`: mean reward of a chunk with an executed action; `rollout/chunks`: number
    of those; `rollout/valid_fraction`: executed actions among those decided on;
    `rollout/returns_mean`: mean undiscounted return of an episode, those that were cut by the end
    of their column included.
    """
    valid = trajectory.valid
    chunks = int(valid.any(-1).sum())
    reward = float((trajectory.rewards * valid).sum())
    return {
        "rollout/rewards": reward / max(chunks, 1),
        "rollout/chunks": float(chunks),
        "rollout/valid_fraction": int(valid.sum()) / max(chunks * valid.shape[-1], 1),
        "rollout/returns_mean": reward / max(_episodes(trajectory), 1),
    }


def _episodes(trajectory: Trajectory) -> int:
    """Episodes of which something was executed. Their numbers rise within a column."""
    return sum(
        len(column[played].unique())
        for column, played in zip(trajectory.episode.T, trajectory.valid.any(-1).T, strict=True)
    )


def env_metrics(outcomes: Sequence[EpisodeOutcome], prefix: str = "env") -> dict[str, float]:
    """Means over finished episodes: `success_once` (succeeded at any step), `return`,
    `episode_len` (env steps), `reward` (return / episode_len), `info/NAME` of what the env
    measured, over those that have it; and their number, `episodes`.

    Args:
        prefix: "env" for training, "eval" for evaluation.
    """
    finished = [outcome for outcome in outcomes if outcome.finished]
    counted = {f"{prefix}/episodes": float(len(finished))}
    if not finished:
        return counted
    told = mean_infos(outcome.infos for outcome in finished)
    return {
        **{f"{prefix}/info/{name}": value for name, value in told.items()},
        f"{prefix}/success_once": fmean(float(outcome.success) for outcome in finished),
        f"{prefix}/return": fmean(outcome.episode_return for outcome in finished),
        f"{prefix}/episode_len": fmean(outcome.length for outcome in finished),
        f"{prefix}/reward": fmean(
            outcome.episode_return / max(outcome.length, 1) for outcome in finished
        ),
        **counted,
    }
