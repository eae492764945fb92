"""Evaluate a study's best setting on held-out starts, which no choice was based on.

The success rate of the best setting is biased upwards on the starts that selected it, and the bias
grows with the number of trials. The runs of the best setting and of the recipe's own setting are
therefore evaluated again:

    SWEEP/heldout-7/    a separate sweep: one evaluation for each run of trial 7
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from rlcore.config.overrides import quote
from rlcore.contracts.errors import CheckpointError
from rlcore.runs.statistics import paired_difference, success_rate
from rlcore.runs.tables import EpisodeResult, comparable, read_results, success_by_start
from rlcore_sweeps.job_record import JobFailedError, JobRecord, is_inside
from rlcore_sweeps.request import DIR, SPLIT, SUBDIR, key_of, override_list
from rlcore_sweeps.study import Study
from rlcore_sweeps.study_record import StudyRecord, Trial
from rlcore_sweeps.task import JobTask

EPISODES = "eval/eval.parquet"
PLACE = "heldout-{}"
REPLICAS = 10**6  # offset between runs; larger than the number of passes of one run


def measure(
    trials: StudyRecord, study: Study, config: DictConfig, context: HydraContext, task: JobTask
) -> None:
    """Evaluate the best trial and the recipe's own setting, and write the rates to `trials.json`.

        {"best": RATE, "default": RATE, "difference": {"mean", "lo", "hi"}}
        RATE: {"trial", "rate", "n", "lo", "hi", "seeds": rate of each run}

    `default` is written if the recipe's own setting is a complete trial other than the best,
    `difference` if the two sets of episodes are also comparable. Episodes of several runs from the
    same start are pooled as passes of one evaluation.

    Raises:
        CheckpointError: a recorded run is not inside the sweep's folder.
        JobFailedError: an evaluation failed.
    """
    assert trials.best is not None
    best = trials.trials[trials.best]
    sides = {"best": best}
    if study.default is not None and trials.best != 0 and trials.trials[0].state == "complete":
        sides["default"] = trials.trials[0]
    rows = {
        name: _evaluate_trial(trial, study, config, context, task) for name, trial in sides.items()
    }
    measured: dict[str, Any] = {
        name: {"trial": sides[name].number, **_success(episodes)} for name, episodes in rows.items()
    }
    if "default" in rows and comparable(*rows["best"], *rows["default"]):
        before, after = (success_by_start(_passes(rows[name])) for name in ("default", "best"))
        measured["difference"] = paired_difference(before, after)._asdict()
    replace(trials, heldout=measured).write(study.sweep)


def _evaluate_trial(
    trial: Trial, study: Study, config: DictConfig, context: HydraContext, task: JobTask
) -> list[list[EpisodeResult]]:
    """Evaluate the runs of a trial on held-out starts; return the episodes of each run."""
    folder = study.sweep / PLACE.format(trial.number)
    (folder / ".jobs").mkdir(parents=True, exist_ok=True)
    hydra = override_list(config.hydra.overrides.hydra)
    overrides = [word for word in hydra if key_of(word) not in (DIR, SUBDIR)]
    overrides += [f"{DIR}={quote(folder)}", f"{SUBDIR}='run-${{hydra.job.num}}'"]
    runs = tuple(str(study.sweep / run.folder) for run in trial.runs)
    for run in runs:
        if not is_inside(study.sweep, Path(run)):
            raise CheckpointError(f"{run}, a run of trial {trial.number}, is not in {study.sweep}")
    words = ["env.eval.split=heldout"]
    if task.verb != "train":  # the jobs are evaluations: repeat them with the trial's setting
        others = [word for word in study.space.fixed if key_of(word) not in SPLIT]
        words = [*others, *study.space.words(trial.setting), *words]
    evaluator = replace(
        task,
        verb="eval",
        flags=task.flags if task.verb != "train" else () if task.untrusted else ("--trust",),
        objective=(),
        runs=runs if task.verb == "train" else (),
        label=f"trial {trial.number} on held-out starts",
    )
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context,
        task_function=evaluator,
        config=context.config_loader.load_configuration(None, overrides, RunMode.MULTIRUN),
    )
    seeds = [[] if run.seed is None else [f"runner.seed={run.seed}"] for run in trial.runs]
    returned = launcher.launch([[*words, *seed] for seed in seeds], 0)
    records = JobRecord.load_all(folder)
    for record, job_return in zip(records, returned, strict=True):
        if job_return.status != JobStatus.COMPLETED:
            raise JobFailedError(f"{record.label}: {record.error or record.state}")
    return [read_results(Path(record.folder) / EPISODES) for record in records]


def _passes(runs: Sequence[Sequence[EpisodeResult]]) -> list[EpisodeResult]:
    """Pool the episodes of several runs, renumbering replicas so that they stay distinct."""
    return [
        replace(row, replica=row.replica + number * REPLICAS)
        for number, rows in enumerate(runs)
        for row in rows
    ]


def _success(runs: Sequence[Sequence[EpisodeResult]]) -> dict[str, Any]:
    pooled = success_rate([*success_by_start(_passes(runs)).values()])
    rates = [success_rate([*success_by_start(rows).values()]).rate for rows in runs]
    return {**pooled._asdict(), "seeds": rates}
