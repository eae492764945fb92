"""Play one episode of a run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rlcore.plugins.registry import load_component

if TYPE_CHECKING:
    from rlcore.contracts.episodes import Footage
    from rlcore.contracts.specs import Episode
    from rlcore.results.tables import EpisodeResult
    from rlcore.rollout.messages import Trace
    from rlcore.run_folder.checkpoint import Checkpoint
    from rlcore.session.assembly import Assembly

Phase = Literal["eval", "train"]


@dataclass(frozen=True)
class Played:
    """An episode, and everything exchanged between env and policy.

    Attributes:
        result: what came of it.
        trace: observations, actions, log-probs, values and rewards, decision by decision.
        footage: every simulated frame.
        deterministic: without exploration noise.
        incidents: worker failures that were recovered from.
        versions: of all that played it.
    """

    result: EpisodeResult
    trace: Trace = field(repr=False)
    footage: Footage = field(repr=False)
    deterministic: bool
    incidents: Sequence[str]
    versions: Mapping[str, str] = field(repr=False)


def play_episode(
    assembly: Assembly, episode: Episode, checkpoint: Checkpoint, *, phase: Phase = "eval"
) -> Played:
    """Play one episode of a run again, with the same noise. Needs `rlcore-tools`.

    Args:
        assembly: of :meth:`SavedRun.config_to_evaluate`, as a command's loop gets it.
        episode: which.
        checkpoint: the weights that play it.
        phase: "eval": as an evaluation; "train": on `env.train` and with exploration noise, as in
            the rollout after the checkpoint.

    Raises:
        UserError: a worker failed.
    """
    played: Played = load_component("function", "play_episode")(
        assembly, episode, checkpoint, phase=phase
    )
    return played
