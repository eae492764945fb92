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
    envs = group.ranks("env")
    rollouts = group.ranks("rollout")
    stages = range(assembly.config.rollout.pipeline_stage_num)
    blocks = parts_of_stage(envs, len(stages), rollouts)
    # all ranks receive in this fixed order, which excludes deadlocks
    routes = [
        Route(rank, stage, part)
        for rank in range(envs)
        for stage in stages
        for part in range(blocks)
    ]
    routes_by_rank: list[list[Route]] = [[] for _ in range(rollouts)]
    for route in routes:
        rank = rollout_rank_of(
            route.env_rank, route.stage, envs, rollouts, part=route.part, parts=blocks
        )
        routes_by_rank[rank].append(route)
    config = assembly.config
    played = assembly.env_specs["train" if order.side == "train" else "eval"]
    jobs = [
        RolloutJob(
            order=replace(order, columns=()),
            routes=tuple(rank_routes),
            seed=config.runner.seed,
            forward_batch=config.rollout.forward_batch,
            env_timeout=config.cluster.timeouts.env,
            final_decisions=order.keep and assembly.needs.final_decisions,
            tasks=played.tasks,
        )
        for rank_routes in routes_by_rank
    ]
    env_jobs = _env_jobs(assembly, order, [route for route in routes if route.part == 0], blocks)
    reports, summaries = group.converse(env_jobs, jobs, on_count)
    gathered = _merged(reports, summaries)
    _check_complete(order.columns, gathered.outcomes)
    return gathered


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
    columns_by_rank: defaultdict[int, list[tuple[Column, ...]]] = defaultdict(list)
    for route, share in zip(stages, deal(order.columns, len(stages)), strict=True):
        columns_by_rank[route.env_rank].append(tuple(share))
    side = assembly.sides[order.side]
    # an evaluation plays each episode once, even if training columns have several
    fills_columns = order.keep and side.config.auto_reset
    length = side.config.chunks_per_column(assembly.policy_spec.num_action_chunks)
    needs = assembly.needs
    wants_value = needs.values and (needs.bootstrap_values or fills_columns)
    return [
        InteractJob(
            side=order.side,
            columns=tuple(columns),
            chunks_per_column=length if fills_columns else None,
            bootstrap=order.keep and (wants_value or needs.final_decisions),
            record=order.record,
            parts=blocks,
        )
        for columns in columns_by_rank.values()
    ]


def _merged(reports: Sequence[InteractReport], summaries: Sequence[RolloutResult]) -> Gathered:
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
        traces={number: trace for summary in summaries for number, trace in summary.traces.items()},
        incidents=[text for report in reports for text in report.incidents],
        render_settings=_merged_settings([report.render_settings for report in reports]),
    )


def _merged_settings(
    settings: Sequence[Mapping[str, str | int | float | bool]],
) -> dict[str, str | int | float | bool]:
    """Merge the render settings of all workers; differing values are joined by commas."""
    merged: dict[str, str | int | float | bool] = {}
    for name in dict.fromkeys(name for reported in settings for name in reported):
        values = list(dict.fromkeys(reported[name] for reported in settings if name in reported))
        merged[name] = values[0] if len(values) == 1 else ", ".join(map(str, values))
    return merged


def _check_complete(columns: Sequence[Column], outcomes: Sequence[EpisodeOutcome]) -> None:
    """Check that the first episode of each column was played, and no episode twice.

    Raises:
        WorkerError: an episode is missing or was played twice.
    """
    counts = Counter(outcome.episode for outcome in outcomes)
    twice = [episode for episode, count in counts.items() if count > 1]
    expected = {column.episodes[0] for column in columns}
    lost = expected - set(counts)
    if twice or lost:
        raise WorkerError(
            f"{len(lost)} episodes were not played and {len(twice)} more than once, "
            f"e.g. {next(iter([*lost, *twice]))}"
        )
