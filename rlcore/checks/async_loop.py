"""Check that episodes can be played while the actor learns (`runner.loop=async`)."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore.checks.facts import Facts
from rlcore.checks.subject import Subject

CHECKS = Subject()
IN_TURN = "or runner.loop=sync"


def _overlaps(facts: Facts) -> bool:
    runner = facts.config.runner
    return runner.overlaps and not runner.only_eval and facts.needs is not None


@CHECKS.add
def rollout_and_actor_are_separate(facts: Facts) -> Iterator[str]:
    if _overlaps(facts) and facts.placement.fused:
        yield (
            "cluster.component_placement must give rollout and actor ranks of their own with "
            f"runner.loop=async, got {facts.config.cluster.component_placement}, which makes them "
            "one process: set for example "
            f"'cluster.component_placement={{env: 1, rollout: 1, actor: 0}}', {IN_TURN}"
        )


@CHECKS.add
def algorithm_learns_from_earlier_weights(facts: Facts) -> Iterator[str]:
    reason = facts.needs.stale_refusal if facts.needs is not None else None
    if _overlaps(facts) and reason:
        yield (
            "runner.loop must be sync (or runner.max_staleness=0) with "
            f"algorithm.name={facts.config.algorithm.name}, got async: {reason}, so it would train "
            "on episodes of earlier weights as if the present ones had played them"
        )


@CHECKS.add
def nothing_leaves_its_accelerator(facts: Facts) -> Iterator[str]:
    """Check that no worker makes room for another one, as both are at work at the same time."""
    if not _overlaps(facts):
        return
    plan = facts.placement
    for role in plan.offloads:
        if any(plan.is_offloaded(role, process) for process in plan.processes(role)):
            yield (
                f"{role}.enable_offload must be false with runner.loop=async, got true: rollout "
                f"and actor compute at the same time; give them other accelerators, {IN_TURN}"
            )
    actor_ranks = {rank for process in plan.processes("actor") for rank in process.resources}
    shares_ranks = any(not actor_ranks.isdisjoint(env.resources) for env in plan.processes("env"))
    for path, env, _ in facts.sides:
        if env.enable_offload and shares_ranks:
            yield (
                f"{path}.enable_offload must be false with runner.loop=async, got true: simulators "
                f"and actor work at the same time; give them other accelerators, {IN_TURN}"
            )
