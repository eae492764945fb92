"""Search with Optuna: propose a batch of trials, run them, and report their results to Optuna.

    finished trials --sampler--> a batch of settings --launcher--> first seeds, pruned or not
             ^                                                       |
             '---- reported in the order of their numbers <---- further seeds of unpruned trials

`SWEEP/study.log` holds finished trials only, each appended in a single write. Proposals depend only
on them, on the study's seed and on the trial's number. A study that was killed therefore proposes
its last batch again, and the jobs of that batch that are done do not run a second time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import optuna
from hydra.core.utils import JobReturn, JobStatus
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from rlcore.contracts.errors import ConfigError
from rlcore.files.typed import as_type
from rlcore_sweeps.job_record import JobFailedError, JobRecord
from rlcore_sweeps.objective import METRIC, SUCCESS
from rlcore_sweeps.pruning import LOG, NAME, Evaluations, PruningRule
from rlcore_sweeps.pruning import METRIC as SUCCESS_METRIC
from rlcore_sweeps.samplers import NO_PRUNER, sampler_of
from rlcore_sweeps.space import SEED, Space
from rlcore_sweeps.study_record import StudyRecord, Trial, TrialRun
from rlcore_sweeps.study_settings import StudySettings

STATES: dict[Any, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]


@dataclass(frozen=True)
class Proposal:
    """A proposed setting, and the system attributes that the sampler stored on its trial."""

    setting: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Study:
    """A study in its sweep's folder.

    Attributes:
        settings: how the study searches.
        space: the search space.
        objective: entry of summary.json, or metric, that a job returns.
        split: split that the objective is measured on, for the record.
        sweep: the sweep's folder.
        launch: runs jobs, given the overrides of each and the number of the first.
        default: the recipe's own setting, which is tried first and never pruned; None if it is not
            in the space.
        trials: trials so far, by number, including those that are running.
    """

    settings: StudySettings
    space: Space
    objective: str
    split: str
    sweep: Path
    launch: Launch
    default: Mapping[str, Any] | None = None
    trials: list[Trial] = field(default_factory=list)

    def run(self) -> StudyRecord:
        """Run the trials that are missing; return all trials.

        Raises:
            ConfigError: the study was started with other settings, or a run returns no number as
                the objective.
            JobFailedError: all trials of the first batch failed.
        """
        self._require_same()
        stored = self._open()
        while len(done := stored.get_trials(deepcopy=False)) < self.settings.n_trials:
            start, end, batch = self._next_batch(done)
            finished = done[:start]
            proposed = self.propose(finished, range(start, end))
            self.trials = [_recorded(trial) for trial in finished]
            trials = self._run_batch(proposed, batch)
            if not finished and all(trial.state == "failed" for trial in trials):
                raise JobFailedError(f"all {len(trials)} trials of the first batch failed")
            for trial, proposal in list(zip(trials, proposed, strict=True))[len(done) - start :]:
                stored.add_trial(self._finished(trial, proposal, end))
        self.trials = [_recorded(trial) for trial in done]
        return self.record()

    def show(self) -> None:
        """Launch the first batch, with the first seed only, to show its jobs; write nothing."""
        first = self.propose([], range(min(self.settings.batch_size, self.settings.n_trials)))
        self.launch(
            [self._words(proposal.setting, self.settings.run_seeds[0]) for proposal in first], 0
        )

    def propose(self, finished: Sequence[FrozenTrial], numbers: range) -> list[Proposal]:
        """Propose the settings of a batch.

        Args:
            finished: trials of earlier batches.
            numbers: numbers of the batch's trials.
        """
        study = optuna.create_study(study_name=NAME, direction=self._direction)
        study.add_trials(finished)
        proposals: list[Proposal] = []
        for number in numbers:
            if number == 0 and self.default is not None:
                study.add_trial(self.trial(TrialState.RUNNING, self.default))
                proposals.append(Proposal(dict(self.default)))
                continue
            study.sampler = sampler_of(
                self.settings.sampler, self.settings.sampler_options, self.settings.seed, number
            )
            values = study.ask(fixed_distributions=self.space.distributions).params
            attributes = dict(study.get_trials(deepcopy=False)[-1].system_attrs)
            setting = {key: self.space.choices[key].short(value) for key, value in values.items()}
            proposals.append(Proposal(setting, attributes))
        return proposals

    def record(self) -> StudyRecord:
        """Write all trials so far to `trials.json`, and return the record.

        Rates on held-out starts are preserved while the best trial is the same.
        """
        values = {trial.number: trial.value for trial in self.trials if trial.value is not None}
        choose = max if self.settings.direction == "maximize" else min
        best = choose(values, key=values.__getitem__) if values else None
        before = StudyRecord.load(self.sweep)
        measured = {} if before is None or before.best != best else before.heldout
        record = replace(self._header, trials=tuple(self.trials), best=best, heldout=measured)
        record.write(self.sweep)
        return record

    def trial(self, state: TrialState, setting: Mapping[str, Any], **others: Any) -> FrozenTrial:
        """Create a trial of Optuna in the study's space.

        Args:
            state: state of the trial.
            setting: values by key.
            others: further arguments of `optuna.trial.create_trial`.

        Raises:
            ValueError: a value is outside its distribution.
        """
        distributions = self.space.distributions
        return create_trial(
            state=state, params=dict(setting), distributions=distributions, **others
        )

    @property
    def _direction(self) -> Literal["maximize", "minimize"]:
        return "maximize" if self.settings.direction == "maximize" else "minimize"

    @property
    def _header(self) -> StudyRecord:
        """The record without trials: what must not change while the study goes on."""
        settings = self.settings
        return StudyRecord(
            self.objective,
            self.split,
            settings.direction,
            settings.sampler,
            settings.pruner,
            settings.seed,
            settings.n_trials,
            settings.run_seeds,
        )

    def _require_same(self) -> None:
        """Check that the study was started with the same settings; `n_trials` may differ.

        Raises:
            ConfigError: another setting differs.
        """
        before = StudyRecord.load(self.sweep)
        if before is None:
            return
        for name, value in vars(self._header).items():
            if name in ("planned", "trials", "best", "heldout"):
                continue
            started = vars(before)[name]
            if started != value:
                raise ConfigError(
                    f"this study started with {name}={started}, and is resumed with {value}",
                    hint="only hydra.sweeper.n_trials can change; start a new sweep",
                )

    def _open(self) -> optuna.Study:
        """Open the study's storage, after cutting off a last line that was not fully written."""
        file = self.sweep / LOG
        if file.is_file() and (text := file.read_bytes()) and not text.endswith(b"\n"):
            os.truncate(file, text.rfind(b"\n") + 1)
        storage = JournalStorage(JournalFileBackend(str(file)))
        return optuna.create_study(
            storage=storage, study_name=NAME, direction=self._direction, load_if_exists=True
        )

    def _next_batch(self, done: Sequence[FrozenTrial]) -> tuple[int, int, int]:
        """Return (first trial, last trial + 1, batch number) of the batch to run.

        That is the last batch if the study was killed before it stored all trials of it, or else a
        new one.
        """
        batches = [_recorded(trial).batch for trial in done]
        last = batches[-1] if done else -1
        if done and len(done) < (end := done[-1].user_attrs["end"]):
            return batches.index(last), end, last
        end = min(len(done) + self.settings.batch_size, self.settings.n_trials)
        return len(done), end, last + 1

    def _run_batch(self, proposed: Sequence[Proposal], batch: int) -> list[Trial]:
        """Run a batch: the first seed of each trial, then the other seeds of unpruned trials."""
        start = len(self.trials)
        self.trials += [
            Trial(start + place, batch, proposal.setting) for place, proposal in enumerate(proposed)
        ]
        first, *others = self.settings.run_seeds
        self._run_jobs([(n, first) for n in range(start, len(self.trials))], start)
        for number, trial in enumerate(self.trials[start:], start):
            if trial.state == "running" and trial.runs[0].pruned is not None:
                self.trials[number] = replace(trial, state="pruned")
        going = [trial.number for trial in self.trials[start:] if trial.state == "running"]
        self._run_jobs([(number, seed) for number in going for seed in others], None)
        for number in going:
            trial = self.trials[number]
            values = [run.value for run in trial.runs if run.value is not None]
            if trial.state == "running":
                self.trials[number] = replace(trial, state="complete", value=fmean(values))
        self.record()
        return self.trials[start:]

    def _run_jobs(self, runs: Sequence[tuple[int, int | None]], finished: int | None) -> None:
        """Run jobs, and record their results in `trials`.

        Args:
            runs: (trial number, seed) of each job.
            finished: number of trials that the pruner compares with; None: the jobs are not
                pruned.
        """
        if not runs:
            return
        first = sum(len(trial.runs) for trial in self.trials)
        for job, (number, seed) in enumerate(runs, first):
            self._put(number, TrialRun(job, seed))
            prunes = finished is not None and (number > 0 or self.default is None)
            self._rule(number, finished or 0, prunes=prunes).write(self.sweep, job)
        self.record()
        words = [self._words(self.trials[number].setting, seed) for number, seed in runs]
        for place, returned in enumerate(self.launch(words, first)):
            number, seed = runs[place]
            run = self._run_record(first + place, seed, returned)
            self._put(number, run)
            if run.value is None:
                self.trials[number] = replace(self.trials[number], state="failed")
        self.record()

    def _put(self, number: int, run: TrialRun) -> None:
        """Record a run of a trial, in place of an earlier record of the same job."""
        others = tuple(other for other in self.trials[number].runs if other.job != run.job)
        self.trials[number] = replace(self.trials[number], runs=(*others, run))

    def _words(self, setting: Mapping[str, Any], seed: int | None) -> list[str]:
        own = [] if seed is None else [f"{SEED}={seed}"]
        return [*self.space.fixed, *self.space.words(setting), *own]

    def _rule(self, number: int, finished: int, *, prunes: bool) -> PruningRule:
        metric = metric_of(self.objective)
        may_prune = prunes and metric and self.settings.pruner != NO_PRUNER
        return PruningRule(
            metric or SUCCESS_METRIC,
            self.settings.pruner if may_prune else None,
            dict(self.settings.pruner_options),
            self._direction,
            number,
            finished,
        )

    def _run_record(self, job: int, seed: int | None, returned: JobReturn) -> TrialRun:
        """Return the record of a run that ended; `value` is None if it failed or is not finite.

        Raises:
            ConfigError: the job succeeded but returned no single number.
        """
        record, steps = JobRecord.load(self.sweep, job), Evaluations.load(self.sweep, job)
        folder = os.path.relpath(record.folder, self.sweep) if record and record.folder else ""
        value = None
        if returned.status == JobStatus.COMPLETED:
            value = returned.return_value
            if not isinstance(value, (int, float)):
                raise ConfigError(
                    f"a study selects by one number, but job {job} returned {value!r}",
                    hint="sweep.objective=success_after.rate, and runs that evaluate",
                )
            value = float(value) if math.isfinite(value) else None
        return TrialRun(job, seed, folder, value, steps.values, steps.pruned, steps.updates)

    def _finished(self, trial: Trial, proposed: Proposal, end: int) -> FrozenTrial:
        """Return a finished trial as Optuna's storage holds it, with its record.

        Args:
            end: number of the batch's last trial + 1.
        """
        first = trial.runs[0]
        return self.trial(
            STATES[trial.state],
            trial.setting,
            value=trial.value,
            intermediate_values={int(step): value for step, value in first.steps.items()},
            user_attrs={"end": end, "record": asdict(trial)},
            system_attrs=proposed.attributes | Evaluations.load(self.sweep, first.job).attributes,
        )


def metric_of(objective: str) -> str | None:
    """Return the metric of evaluations during training that corresponds to an objective.

    None if there is none, so that trials cannot be pruned by it.
    """
    return SUCCESS_METRIC if objective == SUCCESS else objective if METRIC in objective else None


def _recorded(trial: FrozenTrial) -> Trial:
    """Return the record of a trial in Optuna's storage."""
    return as_type(Trial, trial.user_attrs["record"])
