"""Assign columns to the workers as jobs, let them play and merge the results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlcore.contracts.episodes import EpisodeOutcome, Footage
from rlcore.contracts.errors import WorkerError
from rlcore.placement.plan import parts_of_stage, rollout_rank_of
from rlcore.rollout.messages import (
    GatherOrder,
    InteractJob,
    InteractReport,
    RolloutJob,
    RolloutResult,
    Route,
    Trace,
)
from rlcore.rollout.schedule import Column, deal
from rlcore.training.assembly import Assembly
from rlcore.workers.group import WorkerGroup
from rlcore.workers.worker_specs import OnCount


@dataclass
class Gathered:
    """Merged results of all workers.

    Attributes:
        outcomes: outcomes of the episodes, sorted by task and trial.
        env_steps: env steps over all workers.
        seconds: wall-clock time by worker kind and phase, see :func:`gather`.
        videos: footage of filmed episodes, by column number.
        traces: traces of columns, by column number.
        incidents: messages of recovered worker failures.
        render_settings: actual settings of the simulators; values that differ between workers are
            joined by commas.
    """

    outcomes: list[EpisodeOutcome]
    env_steps: int
    seconds: dict[str, float]
    videos: dict[int, Footage] = field(default_factory=dict)
    traces: dict[int, Trace] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    render_settings: dict[str, str | int | float | bool] = field(default_factory=dict)


def gather(
    group: WorkerGroup, assembly: Assembly, order: GatherOrder, on_count: OnCount | None = None
) -> Gathered:
    """Play all columns, each exactly once, whatever the number of workers and stages.

    Seconds are averaged over the ranks of a worker kind: "env" (simulation, rendering, resets),
    "policy" (decisions), "wait_env" (rollout worker waiting for envs).

    Args:
        group: the started workers.
        assembly: the parts of the run.
        order: the columns, and how they are played.
        on_count: called with running totals of episodes.

    Raises:
        WorkerError: episodes were lost or played twice.
    """
    envs, rollouts = group.ranks("env"), group.ranks("rollout")
    stages = range(assembly.config.rollout.pipeline_stage_num)
    blocks = parts_of_stage(envs, len(stages), rollouts)
    # all ranks receive in this fixed order, which excludes deadlocks
    routes = [
        Route(rank, stage, part)
        for rank in range(envs)
        for stage in stages
        for part in range(blocks)
    ]
    answered: list[list[Route]] = [[] for _ in range(rollouts)]
    for one in routes:
        rank = rollout_rank_of(one.env_rank, one.stage, envs, rollouts, part=one.part, parts=blocks)
        answered[rank].append(one)
    config = assembly.config
    jobs = [
        RolloutJob(
            order=replace(order, columns=()),
            routes=tuple(mine),
            seed=config.runner.seed,
            forward_batch=config.rollout.forward_batch,
            env_timeout=config.cluster.timeouts.env,
            shift=_shift(assembly, order),
        )
        for mine in answered
    ]
    played = _env_jobs(assembly, order, [one for one in routes if one.part == 0], blocks)
    reports, summaries = group.converse(played, jobs, on_count)
    gathered = _joined(reports, summaries)
    _check_complete(order.columns, gathered.outcomes)
    return gathered


def _shift(assembly: Assembly, order: GatherOrder) -> tuple[float, ...]:
    """Return the standard deviation of the algorithm's episode shift per action entry.

    It is `episode_shift` times half the entry's range; empty outside of training, or without a
    shift.
    """
    std = assembly.needs.episode_shift
    if not std or order.phase != "train":
        return ()
    channels = assembly.env_specs[order.side].actions
    return tuple(std * (each.high - each.low) / 2 for each in channels for _ in range(each.size))


def _env_jobs(
    assembly: Assembly, order: GatherOrder, stages: Sequence[Route], blocks: int
) -> list[InteractJob]:
    """Return the jobs of the env workers, which assign the columns to their stages.

    Args:
        assembly: the parts of the run.
        order: the columns, and how they are played.
        stages: one route per stage of each env worker.
        blocks: parts into which the rows of a stage are split.
    """
    hands: defaultdict[int, list[tuple[Column, ...]]] = defaultdict(list)
    for at, hand in zip(stages, deal(order.columns, len(stages)), strict=True):
        hands[at.env_rank].append(tuple(hand))
    side = assembly.sides[order.side]
    # an evaluation plays each episode once, even if training columns have several
    full = order.keep and side.config.auto_reset
    length = side.config.chunks_per_column(assembly.policy_spec.num_action_chunks)
    needs = assembly.needs
    return [
        InteractJob(
            side=order.side,
            columns=tuple(columns),
            chunks_per_column=length if full else None,
            bootstrap=order.keep and needs.values and (needs.bootstrap_values or full),
            record=order.record,
            parts=blocks,
        )
        for columns in hands.values()
    ]


def _joined(reports: Sequence[InteractReport], summaries: Sequence[RolloutResult]) -> Gathered:
    """Merge the reports of the env workers and the results of the rollout workers."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        seconds["env"] += sum(report.seconds.values()) / len(reports)
    for summary in summaries:
        for phase, spent in summary.seconds.items():
            seconds[phase] += spent / len(summaries)
    return Gathered(
        outcomes=sorted(
            (outcome for summary in summaries for outcome in summary.outcomes),
            key=lambda outcome: outcome.episode,
        ),
        env_steps=sum(report.env_steps for report in reports),
        seconds=dict(seconds),
        videos={number: film for report in reports for number, film in report.videos.items()},
        traces={number: one for summary in summaries for number, one in summary.traces.items()},
        incidents=[text for report in reports for text in report.incidents],
        render_settings=_together([report.render_settings for report in reports]),
    )


def _together(
    settings: Sequence[Mapping[str, str | int | float | bool]],
) -> dict[str, str | int | float | bool]:
    """Merge the render settings of all workers; differing values are joined by commas."""
    together: dict[str, str | int | float | bool] = {}
    for name in dict.fromkeys(name for one in settings for name in one):
        values = list(dict.fromkeys(one[name] for one in settings if name in one))
        together[name] = values[0] if len(values) == 1 else ", ".join(map(str, values))
    return together


def _check_complete(columns: Sequence[Column], outcomes: Sequence[EpisodeOutcome]) -> None:
    """Check that the first episode of each column was played, and no episode twice.

    Raises:
        WorkerError: an episode is missing or was played twice.
    """
    played = Counter(outcome.episode for outcome in outcomes)
    twice = [episode for episode, count in played.items() if count > 1]
    asked = {column.episodes[0] for column in columns}
    lost = asked - set(played)
    if twice or lost:
        raise WorkerError(
            f"{len(lost)} episodes were not played and {len(twice)} more than once, "
            f"e.g. {next(iter([*lost, *twice]))}"
        )
