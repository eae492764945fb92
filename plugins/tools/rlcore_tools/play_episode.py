"""Play one episode of a run again: what :func:`rlcore.api.play_episode` does."""

from __future__ import annotations

from dataclasses import replace

from rlcore.api import Assembly, Checkpoint, Phase, Played
from rlcore.contracts.specs import Episode
from rlcore.evaluation.evaluate import EVAL_UPDATE
from rlcore.numerics.record import computed
from rlcore.results.tables import from_outcomes
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import Column
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.manifest import versions
from rlcore.session.gather import gather
from rlcore.session.session import STOCHASTIC, protocol, sampling
from rlcore.workers.backend import make_group


def play_episode(
    assembly: Assembly, episode: Episode, checkpoint: Checkpoint, *, phase: Phase = "eval"
) -> Played:
    """See :func:`rlcore.api.play_episode`."""
    evaluates, rollout = phase == "eval", assembly.config.rollout
    order = GatherOrder(
        side=phase,
        columns=[Column(0, (episode,))],
        phase=phase,
        update=EVAL_UPDATE if evaluates else checkpoint.step,
        deterministic=evaluates and rollout.eval_deterministic,
        temperature=rollout.eval_temperature if evaluates else None,
        keep=False,
        record=frozenset([0]),
        trace=frozenset([0]),
    )
    before = computed(RunFolder.containing(checkpoint.path).manifest)
    worker_specs = replace(assembly.worker_specs, begun=None if before is None else before.kernels)
    with make_group(worker_specs) as group:
        group.start()
        gathered = gather(group, assembly, order)
    words = sampling(assembly.config) if evaluates else STOCHASTIC
    rules = protocol(assembly).digest if evaluates else ""
    (result,) = from_outcomes(gathered.outcomes, assembly.env_specs[phase].tasks, words, rules)
    return Played(
        result=result,
        trace=gathered.traces[0],
        footage=gathered.videos[0],
        deterministic=order.deterministic,
        incidents=gathered.incidents,
        versions=versions(assembly.interpreters(), assembly.played_specs),
    )
