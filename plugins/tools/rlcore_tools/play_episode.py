"""Play episodes of a run again: the implementation of :func:`rlcore.api.play_episode`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rlcore.api import Assembly, Checkpoint, Phase, Played
from rlcore.contracts.episodes import Footage
from rlcore.contracts.specs import Episode
from rlcore.evaluation.evaluate import EVAL_UPDATE
from rlcore.numerics.record import read_kernels
from rlcore.results.tables import EpisodeResult, from_outcomes
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import Column
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.manifest import versions
from rlcore.session.gather import Gathered, gather
from rlcore.session.session import STOCHASTIC, protocol, sampling
from rlcore.workers.backend import make_group


def play_episode(
    assembly: Assembly, episode: Episode, checkpoint: Checkpoint, *, phase: Phase = "eval"
) -> Played:
    """See :func:`rlcore.api.play_episode`."""
    (played,) = play_episodes(assembly, [episode], checkpoint, phase=phase)
    return played


def play_episodes(
    assembly: Assembly,
    episodes: Iterable[Episode],
    checkpoint: Checkpoint,
    *,
    phase: Phase = "eval",
) -> Iterator[Played]:
    """Play episodes again, one after another in the same workers, and yield each result."""
    episodes = [*episodes]
    again = gathered_again(assembly, episodes, checkpoint, phase=phase)
    for episode, (result, gathered) in zip(episodes, again, strict=True):
        yield Played(
            result=result,
            trace=gathered.traces[0],
            footage=gathered.videos.get(0, Footage(episode)),  # empty if the env has no camera
            deterministic=phase == "eval" and assembly.config.rollout.eval_deterministic,
            incidents=gathered.incidents,
            versions=versions(assembly.interpreters(), assembly.active_specs),
        )


def gathered_again(
    assembly: Assembly,
    episodes: Iterable[Episode],
    checkpoint: Checkpoint,
    *,
    phase: Phase = "eval",
    record: bool = True,
) -> Iterator[tuple[EpisodeResult, Gathered]]:
    """Play episodes one after another in the same workers; yield each outcome and gathered data.

    Args:
        phase: "eval" for the keys and settings of evaluations; "train" for those of the rollout
            that follows the checkpoint.
        record: record a frame of every simulated step.
    """
    evaluates, rollout = phase == "eval", assembly.config.rollout
    assembly = assembly.with_simulators(assembly.interpreters())
    before = read_kernels(RunFolder.containing(checkpoint.path).manifest)
    worker_specs = replace(
        assembly.worker_specs, resumed_kernels=None if before is None else before.kernels
    )
    words = sampling(assembly.config) if evaluates else STOCHASTIC
    rules = protocol(assembly).digest if evaluates else ""
    with make_group(worker_specs) as group:
        group.start()
        for episode in episodes:
            order = GatherOrder(
                side=phase,
                columns=[Column(0, (episode,))],
                phase=phase,
                update=EVAL_UPDATE if evaluates else checkpoint.step,
                deterministic=evaluates and rollout.eval_deterministic,
                temperature=rollout.eval_temperature if evaluates else None,
                keep=False,
                record=frozenset([0] if record else []),
                trace=frozenset([0]),
            )
            gathered = gather(group, assembly, order)
            tasks = assembly.env_specs[phase].tasks
            (result,) = from_outcomes(gathered.outcomes, tasks, words, rules)
            yield result, gathered
