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
    """A replayed episode, with everything that env and policy exchanged.

    Attributes:
        result: the episode's row in a results table: success, return, length.
        trace: observations, actions, log-probs, values and rewards, decision by decision.
        footage: every simulated frame.
        deterministic: whether the policy acted without exploration noise.
        incidents: worker failures from which the replay recovered.
        versions: versions of the packages that the episode was played with, by name.
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
    """Play one episode of a run again, with the same random numbers. Needs `rlcore-tools`.

    Args:
        assembly: assembly of a configuration from :meth:`SavedRun.config_to_evaluate`, as
            :func:`rlcore.api.start` passes it to a loop.
        episode: the episode to play.
        checkpoint: checkpoint whose weights act.
        phase: "eval": on `env.eval`, as in an evaluation; "train": on `env.train` with exploration
            noise, as in the rollout after the checkpoint.

    Raises:
        UserError: a worker failed, or `rlcore-tools` is not installed.
    """
    played: Played = load_component("function", "play_episode")(
        assembly, episode, checkpoint, phase=phase
    )
    return played
