"""Select the normalisation statistics of a checkpoint that the settings ask for. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_prismatic import statistics
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.trained import written_settings


@dataclass(frozen=True)
class Scaling:
    """Statistics of a checkpoint, and the bounds in use.

    Attributes:
        all: all statistics of the checkpoint, to be saved with it again.
        key: the data set in use.
        action: bounds of the M entries of an action.
        proprio: bounds of the state; None if the policy does not read it.
    """

    all: statistics.Statistics
    key: str
    action: statistics.Bounds
    proprio: statistics.Bounds | None


def load_statistics(config: PrismaticModelConfig, resolved: Resolved) -> Scaling:
    """Load the statistics of the checkpoint at `model_path`.

    Raises:
        CheckpointError: the statistics are missing, damaged, of another robot, or lack
            `unnorm_key`.
    """
    assert resolved.folders is not None
    folder = resolved.folders.find(statistics.FILE_NAME).parent  # adapters may have their own
    all_statistics = statistics.read(folder)
    trained = written_settings(resolved.folders).get("unnorm_key")
    requested = config.unnorm_key or (trained if isinstance(trained, str) else None)
    key = statistics.choose(all_statistics, requested, folder)
    return scaling(config, resolved, all_statistics, key, origin=str(folder))


def scaling(
    config: PrismaticModelConfig,
    resolved: Resolved,
    all_statistics: statistics.Statistics,
    key: str,
    *,
    origin: str,
) -> Scaling:
    """Return all statistics, and the bounds of the data set `key`, which are in use."""

    def part(name: str, size: int) -> statistics.Bounds:
        return statistics.bounds(
            all_statistics,
            key,
            name,
            kind=config.action_norm,
            size=size,
            epsilon=resolved.epsilon,
            origin=origin,
        )

    proprio = part("proprio", resolved.proprio_dim) if resolved.proprio_dim else None
    return Scaling(all_statistics, key, part("action", resolved.action_dim), proprio)
