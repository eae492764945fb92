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
        CheckpointError: they are missing, damaged, of another robot, or lack `unnorm_key`.
    """
    assert resolved.folders is not None
    folder = resolved.folders.find(statistics.FILE_NAME).parent  # adapters may have their own
    found = statistics.read(folder)
    trained = written_settings(resolved.folders).get("unnorm_key")
    asked = config.unnorm_key or (trained if isinstance(trained, str) else None)
    key = statistics.choose(found, asked, folder)
    return scaling(config, resolved, found, key, origin=str(folder))


def scaling(
    config: PrismaticModelConfig,
    resolved: Resolved,
    found: statistics.Statistics,
    key: str,
    *,
    origin: str,
) -> Scaling:
    """Return the statistics `found` with the bounds of the data set `key` in use."""

    def part(name: str, size: int) -> statistics.Bounds:
        return statistics.bounds(
            found, key, name, kind=config.action_norm, size=size, epsilon=resolved.epsilon,
            origin=origin,
        )  # fmt: skip

    proprio = part("proprio", resolved.proprio_dim) if resolved.proprio_dim else None
    return Scaling(found, key, part("action", resolved.action_dim), proprio)
