"""Gather the episodes of one update, and replace groups whose scores are out of bounds.

    play all groups --> within bounds? --yes--> trained on
                          ^       |
                          |       no
                          +-- play the same number of new groups

If the algorithm bounds the mean score of a group and allows refill rounds, groups out of bounds are
dropped and new groups are played in their place, until the batch is full or the refill rounds are
used up (dynamic sampling of DAPO, Yu et al. 2025, arXiv 2503.14476, section 3.2). A round plays
exactly the number of missing groups, so no group within bounds is discarded. The choice of groups
depends only on the update and the scores, so it is the same on any placement and after a resume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.specs import GroupFilter
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import Column, filmed_columns, groups_per_update, training_columns
from rlcore.training.demonstrated_starts import demonstrated_starts
from rlcore.training.gather import Gathered, gather
from rlcore.training.session import Session


def gather_batch(
    session: Session,
    update: int,
    stopped: Callable[[], bool] = lambda: False,
    staleness: int = 0,
) -> tuple[Gathered, dict[str, float]]:
    """Play the episodes of one update. The trajectory stays in the rollout workers.

    Args:
        stopped: returns whether the run was asked to stop; no further round begins then.
        staleness: updates by which the weights that act are behind.

    Returns:
        The result of all rounds, including groups that were dropped, and the metrics of the group
        filter, if the algorithm has one: `rollout/groups` (number of groups played),
        `rollout/groups_within_bounds` (the fraction of them within the bounds) and
        `rollout/refill_rounds`. With `runner.demonstration_starts` also
        `rollout/demonstration_starts`, the share of episodes that begin where a demonstration did.
    """
    bounds = session.assembly.needs.group_filter
    size = session.config.algorithm.group_size
    wanted_groups = groups_per_update(session.config.env.train, size)
    rounds: list[Gathered] = []
    accepted: frozenset[int] = frozenset()
    played = 0
    missing = wanted_groups
    while missing and len(rounds) <= (bounds.refill_rounds if bounds else 0):
        columns = _columns(session, update, range(played, played + missing))
        number = len(rounds)
        rounds.append(_round(session, update, columns, accepted, staleness, number=number))
        played += missing
        if stopped():
            break
        if bounds is not None:
            accepted |= within_bounds(columns, rounds[-1].outcomes, bounds)
            missing = wanted_groups - len(accepted) // size
    merged = _merge(rounds)
    runner = session.config.runner
    extra_metrics = {}
    if runner.demonstration_starts:
        extra_metrics["rollout/demonstration_starts"] = runner.demonstrated_share(update)
    if bounds is None:
        return merged, extra_metrics
    if missing and bounds.refill_rounds and not stopped():
        _report_missing(session, update, bounds, wanted_groups - missing, wanted_groups)
    return merged, {
        **extra_metrics,
        "rollout/groups": float(played),
        "rollout/groups_within_bounds": (wanted_groups - missing) / played,
        "rollout/refill_rounds": float(len(rounds) - 1),
    }


def within_bounds(
    columns: Sequence[Column], outcomes: Sequence[EpisodeOutcome], bounds: GroupFilter
) -> frozenset[int]:
    """Return the numbers of the columns whose group has a mean score within the bounds.

    The score of a column is the return of its first episode.
    """
    returns = {outcome.episode: outcome.episode_return for outcome in outcomes}
    groups: defaultdict[int, list[Column]] = defaultdict(list)
    for column in columns:
        groups[column.episodes[0].group].append(column)
    return frozenset(
        column.number
        for members in groups.values()
        if bounds.low <= fmean(returns[m.episodes[0]] for m in members) <= bounds.high
        for column in members
    )


def _columns(session: Session, update: int, groups: range) -> list[Column]:
    config = session.config
    assembly = session.assembly
    weights = list(session.run.task_weights.values()) if session.steering.task_weights else None
    demonstrated = demonstrated_starts(session, update)
    return training_columns(
        assembly.env_specs["train"],
        config.env.train,
        seed=config.runner.seed,
        update=update,
        num_action_chunks=assembly.policy_spec.num_action_chunks,
        group_size=config.algorithm.group_size,
        groups=groups,
        weights=weights,
        demonstrated=demonstrated,
    )


def _round(
    session: Session,
    update: int,
    columns: list[Column],
    stay: frozenset[int],
    staleness: int,
    *,
    number: int,
) -> Gathered:
    """Play one round of columns. Only episodes of the first round (`number` 0) are filmed.

    Args:
        stay: numbers of columns of earlier rounds that the rollout workers retain.
    """
    name = f"rollout {update + 1}" + (f", refill {number}" if number else "")
    video = session.config.env.train.video_cfg
    with session.progress.phase(name, total=len(columns), quiet=True) as phase:
        return gather(
            session.group,
            session.assembly,
            GatherOrder(
                side="train",
                columns=columns,
                phase="train",
                update=update,
                deterministic=False,
                keep=True,
                record=frozenset() if number else filmed_columns(columns, video),
                stay=stay,
                staleness=staleness,
            ),
            phase.counts,
        )


def _merge(rounds: Sequence[Gathered]) -> Gathered:
    """Merge the results of all rounds, in the order of the rounds."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for gathered in rounds:
        for phase, spent in gathered.seconds.items():
            seconds[phase] += spent
    return Gathered(
        outcomes=[outcome for gathered in rounds for outcome in gathered.outcomes],
        env_steps=sum(gathered.env_steps for gathered in rounds),
        seconds=dict(seconds),
        videos=rounds[0].videos,
        incidents=[text for gathered in rounds for text in gathered.incidents],
        render_settings={
            name: value for gathered in rounds for name, value in gathered.render_settings.items()
        },
    )


def _report_missing(
    session: Session, update: int, bounds: GroupFilter, trained: int, due: int
) -> None:
    """Print how many groups are within the bounds after all refill rounds."""
    session.progress.line(
        f"update {update + 1}: after {bounds.refill_rounds} rounds of refill the mean return of "
        f"{trained} of {due} groups lies in [{bounds.low:g}, {bounds.high:g}]; the others are not "
        "trained on. Wider bounds, larger groups or other tasks give more: "
        "rlcore train --help algorithm"
    )
