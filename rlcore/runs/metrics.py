"""Name metrics, and compute the metrics of rollouts and episodes, which need no learner.

Canonical names are `train/actor/*`, `train/critic/*`, `rollout/*`, `env/*`, `eval/*`, `time/*`.
The module uses tensors without importing torch, so that it loads quickly.
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
"""Fields of each line of `metrics.jsonl`; no metric may have one of these names."""
MEASURED = ("env/", "eval/", "time/")
"""Prefixes of metrics that the training loop measures, not the algorithm."""
MICRO_BATCH_SIZE = "train/actor/micro_batch_size"
"""Metric with the micro-batch size that fits, logged if memory ran out."""


def rollout_metrics(trajectory: Trajectory) -> dict[str, float]:
    """Compute metrics of the action chunks of a rollout.

    Only chunks with at least one executed action count. Episodes that were cut by the end of their
    column are included.

    Returns:
        `rollout/rewards`: mean summed reward of a chunk; `rollout/chunks`: number of chunks;
        `rollout/valid_fraction`: fraction of the chunks' actions that were executed;
        `rollout/returns_mean`: mean undiscounted return of an episode.
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
    """Count the episodes with at least one executed action.

    Episode numbers increase within a column, so distinct numbers in a column are distinct episodes.
    """
    return sum(
        len(column[executed].unique())
        for column, executed in zip(trajectory.episode.T, trajectory.valid.any(-1).T, strict=True)
    )


def env_metrics(outcomes: Sequence[EpisodeOutcome], prefix: str = "env") -> dict[str, float]:
    """Compute means over finished episodes.

    Args:
        outcomes: the outcomes of episodes; unfinished ones are ignored.
        prefix: prefix of the names, "env" for training, "eval" for evaluation.

    Returns:
        The number of finished episodes, `episodes`, and, if there are any, the means
        `success_once` (success at any step), `return`, `episode_len` (env steps), `reward`
        (return / episode_len) and `info/NAME` for each value that the env measured, over the
        episodes that have it. Each name follows the prefix and a slash.
    """
    finished = [outcome for outcome in outcomes if outcome.finished]
    counted = {f"{prefix}/episodes": float(len(finished))}
    if not finished:
        return counted
    infos = mean_infos(outcome.infos for outcome in finished)
    return {
        **{f"{prefix}/info/{name}": value for name, value in infos.items()},
        f"{prefix}/success_once": fmean(float(outcome.success) for outcome in finished),
        f"{prefix}/return": fmean(outcome.episode_return for outcome in finished),
        f"{prefix}/episode_len": fmean(outcome.length for outcome in finished),
        f"{prefix}/reward": fmean(
            outcome.episode_return / max(outcome.length, 1) for outcome in finished
        ),
        **counted,
    }
