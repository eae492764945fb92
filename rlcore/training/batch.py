"""Gather the episodes of one update, and replace groups whose scores are out of bounds.

    play all groups --> within bounds? --yes--> trained on
                          ^       |
                          |       no
                          +-- play as many others

Where the algorithm sets bounds for the mean score of a group and allows for it, groups out of
bounds are dropped and others are played in their place, until the batch is full (dynamic sampling
of DAPO, Yu et al. 2025, arXiv 2503.14476, section 3.2). A round plays as many groups as are
missing, so no episode that could have been trained on is dropped. The choice of groups depends on
the update and the scores alone, so it is the same on any placement and after a resume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean

from rlcore.contracts.episodes import EpisodeOutcome
from rlcore.contracts.specs import GroupFilter
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import Column, filmed_columns, groups_per_update, training_columns
from rlcore.session.gather import Gathered, gather
from rlcore.session.session import Session


def gather_batch(
    session: Session, update: int, stopped: Callable[[], bool] = lambda: False
) -> tuple[Gathered, dict[str, float]]:
    """Play one update's episodes; the trajectory stays with the workers that acted.

    Args:
        stopped: whether the run is asked to end: then there are no further rounds.

    Returns:
        All that was played, given up or not; and where groups are filtered, metrics of that:
        `rollout/groups` (played), `rollout/groups_within_bounds` (their share),
        `rollout/refill_rounds`.
    """
    bounds, size = session.assembly.needs.group_filter, session.config.algorithm.group_size
    due = groups_per_update(session.config.env.train, size)
    rounds: list[Gathered] = []
    stay: frozenset[int] = frozenset()
    played, missing = 0, due
    while missing and len(rounds) <= (bounds.refill_rounds if bounds else 0):
        columns = _columns(session, update, range(played, played + missing))
        rounds.append(_round(session, update, columns, stay, number=len(rounds)))
        played += missing
        if stopped():
            break
        if bounds is not None:
            stay |= within_bounds(columns, rounds[-1].outcomes, bounds)
            missing = due - len(stay) // size
    whole = _together(rounds)
    if bounds is None:
        return whole, {}
    if missing and bounds.refill_rounds and not stopped():
        _say_missing(session, update, bounds, due - missing, due)
    return whole, {
        "rollout/groups": float(played),
        "rollout/groups_within_bounds": (due - missing) / played,
        "rollout/refill_rounds": float(len(rounds) - 1),
    }


def within_bounds(
    columns: Sequence[Column], outcomes: Sequence[EpisodeOutcome], bounds: GroupFilter
) -> frozenset[int]:
    """Numbers of the columns whose group's mean score lies within the bounds; the score of a
    column is the return of its first episode."""
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
    config, assembly = session.config, session.assembly
    weights = list(session.run.task_weights.values()) if session.steering.task_weights else None
    return training_columns(
        assembly.env_specs["train"],
        config.env.train,
        seed=config.runner.seed,
        update=update,
        num_action_chunks=assembly.policy_spec.num_action_chunks,
        group_size=config.algorithm.group_size,
        groups=groups,
        weights=weights,
    )


def _round(
    session: Session, update: int, columns: list[Column], stay: frozenset[int], *, number: int
) -> Gathered:
    """Play these columns, beside those that stay. What is filmed is of the first round."""
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
            ),
            phase.counts,
        )


def _together(rounds: Sequence[Gathered]) -> Gathered:
    """What all rounds played, round by round."""
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
        render_settings={k: v for one in rounds for k, v in one.render_settings.items()},
    )


def _say_missing(session: Session, update: int, bounds: GroupFilter, found: int, due: int) -> None:
    session.progress.line(
        f"update {update + 1}: after {bounds.refill_rounds} rounds of refill the mean return of "
        f"{found} of {due} groups lies in [{bounds.low:g}, {bounds.high:g}]; the others are not "
        "trained on. Wider bounds, larger groups or other tasks give more: "
        "rlcore train --help algorithm"
    )
