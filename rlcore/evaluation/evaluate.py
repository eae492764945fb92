"""Evaluate a policy on the fixed list of (task, trial), each exactly once; give rows and a
table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from rlcore.checks.further_sides import VALIDATION
from rlcore.contracts.episodes import Film
from rlcore.contracts.specs import EnvSpec
from rlcore.files.damaged_files import blaming
from rlcore.results.parquet import read_note
from rlcore.results.statistics import success_rate
from rlcore.results.summary import Control, Summary, build_summary, write_summary
from rlcore.results.tables import (
    EpisodeResult,
    comparable,
    from_outcomes,
    plain_table,
    success_by_start,
    success_rows,
    write_results,
)
from rlcore.rollout.messages import GatherOrder
from rlcore.rollout.schedule import evaluation_columns, filmed_columns
from rlcore.run_folder.metrics import env_metrics
from rlcore.run_folder.protocol_record import describe_difference
from rlcore.run_folder.trackers import read_metrics
from rlcore.session.assembly import Assembly
from rlcore.session.gather import Gathered, gather
from rlcore.session.session import Session, caveat, made_with, open_session, protocol, sampling

EVAL_UPDATE = 0  # evaluations before and after draw the same noise, so that they are paired


def run(assembly: Assembly) -> list[EpisodeResult]:
    """`rlcore eval`: evaluate `actor.model.model_path` and print the table."""
    with open_session(assembly) as session:
        results = evaluate(session, "eval")
        conclude(session, {"after": results})
    return results


def evaluate(
    session: Session, label: str, update: int = 0, side: str = "eval", policy: str = ""
) -> list[EpisodeResult]:
    """Play the protocol once with the present weights.

    Writes `eval/LABEL.parquet`; logs `eval/*`.

    Args:
        session: the run.
        label: name of this evaluation ("before", "after", "step_000010", ...).
        update: updates done so far, the step of the metrics.
        side: that is played; the metrics of a further one are logged under its name.
        policy: whose metrics they are, where not of the one that is trained: a part of their names.

    Raises:
        HookError: a hook of a plugin failed; the evaluation was made all the same.
    """
    assembly = session.assembly.evaluating(side)
    config, spec = assembly.config, assembly.env_specs["eval"]
    columns = evaluation_columns(spec, config.env.eval)
    video = config.env.eval.video_cfg
    with (
        session.clock.measure(f"eval_{label}"),
        session.progress.phase(f"evaluate ({label})", total=len(columns)) as phase,
    ):
        gathered = gather(
            session.group,
            assembly,
            GatherOrder(
                side=side,
                columns=columns,
                phase="eval",
                update=EVAL_UPDATE,
                deterministic=config.rollout.eval_deterministic,
                temperature=config.rollout.eval_temperature,
                keep=False,
                record=filmed_columns(columns, video),
            ),
            phase.counts,
        )
    session.folder.require_held()
    session.note_rendering(side, gathered.render_settings)
    session.report_recovered(gathered.incidents)
    rules = protocol(assembly).digest
    results = from_outcomes(gathered.outcomes, spec.tasks, sampling(config), rules)
    path = session.folder.evaluations / f"{label}.parquet"
    write_results(path, results, made_with(assembly))
    series = ["eval", *([] if side == "eval" else [side]), *filter(None, [policy])]
    metrics = env_metrics(gathered.outcomes, prefix="/".join(series))
    session.hooks.call(
        "rlcore_after_eval",
        run=session.run,
        label=label,
        films=films(gathered, spec),
        metrics=metrics,
    )
    session.trackers.log(metrics, step=update)
    rate, said = success_rate([*success_by_start(results).values()]), caveat(assembly)
    session.progress.line(
        f"success {label}: {rate.rate:.3f} [{rate.lo:.3f}, {rate.hi:.3f}] over {rate.n} episodes"
        + (f"; {said}" if said else "")
    )
    session.hooks.check()
    return results


def evaluate_to_choose(session: Session, label: str, update: int, policy: str = "") -> float:
    """Evaluate with the present weights, on the validation starts of `env.validation` where there
    are some; returns the mean success.

    Raises:
        HookError: as :func:`evaluate`.
    """
    side = VALIDATION if VALIDATION in session.assembly.further else "eval"
    label = label if side == "eval" else f"{side}/{label}"
    return fmean(one.success for one in evaluate(session, label, update, side, policy))


def table(session: Session, results: list[EpisodeResult], title: str) -> str:
    """The per-task table with groups and both averages, as text."""
    spec = session.assembly.env_specs["eval"]
    said = "; ".join(filter(None, [title, caveat(session.assembly)]))
    return plain_table(success_rows(results, spec.task_groups), said)


def conclude(
    session: Session,
    seen: Mapping[str, list[EpisodeResult]],
    *,
    stopped: str = "",
    best: str | None = None,
    control: Control | None = None,
) -> Summary:
    """Write `summary.json`; print the result and where it is.

    Args:
        seen: evaluations by label, "after" among them: see
            :func:`rlcore.results.summary.build_summary`.
        stopped: why a plugin ended training.
        best: name of the best checkpoint.
        control: how much work the control was.

    Raises:
        HookError: a hook of a plugin failed; the run is finished all the same.
    """
    session.trackers.sync()  # a run with a summary is never gone on with to log it again
    with blaming(session.folder.metrics):
        metrics = read_metrics(session.folder.metrics)
    summary = build_summary(
        seen,
        groups=session.assembly.env_specs["eval"].task_groups,
        seed=session.config.runner.seed,
        seconds=session.clock.seconds,
        totals=session.totals,
        versions=session.manifest["versions"],
        caveat=caveat(session.assembly),
        stopped=stopped,
        metrics=metrics,
        best=best,
        control=control,
    )
    for line in _unpaired(session, seen):
        session.progress.line(line)
    session.folder.require_held()
    write_summary(session.folder.summary, summary)
    session.progress.line(
        table(session, seen["after"], "success after" if seen.keys() > {"after"} else "success")
    )
    session.hooks.call("rlcore_after_run", run=session.run, summary=summary)
    session.progress.line(f"run folder: {session.folder.path}")
    session.hooks.check()
    return summary


def _unpaired(session: Session, seen: Mapping[str, list[EpisodeResult]]) -> Iterator[str]:
    """Say which evaluations of the run can't be paired with the one before training, and why: a
    simulator may have been started anew with another version."""
    for label, results in seen.items():
        before = "forgetting/before" if label.startswith("forgetting/") else "before"
        if before in seen and not comparable(seen[before], results):
            notes = [
                read_note(session.folder.evaluations / f"{name}.parquet").get("protocol", {})
                for name in (before, label)
            ]
            yield f"{before} and {label} are not paired: {describe_difference(*notes)}"


def films(gathered: Gathered, spec: EnvSpec) -> list[Film]:
    """The filmed episodes, in the order of their columns.

    Args:
        spec: of the env that they were played on.
    """
    return [
        Film(footage, spec.tasks[footage.episode.task], spec.descriptions[footage.episode.task])
        for _, footage in sorted(gathered.videos.items())
    ]
