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
from rlcore_sweeps.job import METRIC, SUCCESS, JobFailedError, JobRecord
from rlcore_sweeps.pruning import LOG, NAME, Evaluations, PruningRule
from rlcore_sweeps.pruning import METRIC as SUCCESS_METRIC
from rlcore_sweeps.samplers import NO_PRUNER, pruner_of, sampler_of
from rlcore_sweeps.space import SEED, Space
from rlcore_sweeps.study_record import StudyRecord, Trial, TrialRun

DIRECTIONS = ("maximize", "minimize")
STATES: dict[Any, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]


@dataclass(frozen=True)
class Plan:
    """How a study searches; see `hydra_plugins.hydra_rlcore_sweeper`."""

    n_trials: int
    batch_size: int
    seeds: tuple[int | None, ...]
    direction: Literal["maximize", "minimize"]
    sampler: str
    sampler_options: Mapping[str, Any]
    pruner: str
    pruner_options: Mapping[str, Any]
    seed: int

    def __post_init__(self) -> None:
        for name in ("n_trials", "batch_size"):
            if (value := vars(self)[name]) < 1:
                raise ConfigError(f"hydra.sweeper.{name} must be 1 or more, got {value}")
        if self.direction not in DIRECTIONS:
            raise ConfigError(
                f"hydra.sweeper.direction must be {' or '.join(DIRECTIONS)}, got {self.direction!r}"
            )
        if len({*self.seeds}) < len(self.seeds):
            raise ConfigError(f"sweep.seeds contains a seed twice: {[*self.seeds]}")
        sampler_of(self.sampler, self.sampler_options)
        pruner_of(self.pruner, self.pruner_options)


@dataclass(frozen=True)
class Proposal:
    """A proposed setting, and the system attributes that the sampler stored on its trial."""

    setting: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Study:
    """A study in its sweep's folder.

    Attributes:
        plan: how the study searches.
        space: the search space.
        objective: entry of summary.json, or metric, that a job returns.
        split: split that the objective is measured on, for the record.
        sweep: the sweep's folder.
        launch: runs jobs, given the overrides of each and the number of the first.
        default: the recipe's own setting, which is tried first and never pruned; None if it is not
            in the space.
        trials: trials so far, by number, including those that are running.
    """

    plan: Plan
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
        while len(done := stored.get_trials(deepcopy=False)) < self.plan.n_trials:
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
        first = self.propose([], range(min(self.plan.batch_size, self.plan.n_trials)))
        self.launch([self._words(proposal.setting, self.plan.seeds[0]) for proposal in first], 0)

    def propose(self, finished: Sequence[FrozenTrial], numbers: range) -> list[Proposal]:
        """Propose the settings of a batch.

        Args:
            finished: trials of earlier batches.
            numbers: numbers of the batch's trials.
        """
        study = optuna.create_study(study_name=NAME, direction=self.plan.direction)
        study.add_trials(finished)
        proposals: list[Proposal] = []
        for number in numbers:
            if number == 0 and self.default is not None:
                study.add_trial(self.trial(TrialState.RUNNING, self.default))
                proposals.append(Proposal(dict(self.default)))
                continue
            study.sampler = sampler_of(
                self.plan.sampler, self.plan.sampler_options, self.plan.seed, number
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
        choose = max if self.plan.direction == "maximize" else min
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
    def _header(self) -> StudyRecord:
        plan = self.plan
        return StudyRecord(
            self.objective,
            self.split,
            plan.direction,
            plan.sampler,
            plan.pruner,
            plan.seed,
            plan.n_trials,
            plan.seeds,
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
            storage=storage, study_name=NAME, direction=self.plan.direction, load_if_exists=True
        )

    def _next_batch(self, done: Sequence[FrozenTrial]) -> tuple[int, int, int]:
        """Return (first trial, last trial + 1, batch number) of the batch to run.

        That is the last batch if the study was killed before it stored all trials of it, or else a
        new one.
        """
        last = done[-1].user_attrs if done else {"end": 0, "batch": -1}
        if len(done) < last["end"]:
            start = sum(trial.user_attrs["batch"] < last["batch"] for trial in done)
            return start, last["end"], last["batch"]
        end = min(len(done) + self.plan.batch_size, self.plan.n_trials)
        return len(done), end, last["batch"] + 1

    def _run_batch(self, proposed: Sequence[Proposal], batch: int) -> list[Trial]:
        """Run a batch: the first seed of each trial, then the other seeds of unpruned trials."""
        start = len(self.trials)
        self.trials += [
            Trial(start + place, batch, proposal.setting) for place, proposal in enumerate(proposed)
        ]
        first, *others = self.plan.seeds
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
        may_prune = prunes and metric and self.plan.pruner != NO_PRUNER
        return PruningRule(
            metric or SUCCESS_METRIC,
            self.plan.pruner if may_prune else None,
            dict(self.plan.pruner_options),
            self.plan.direction,
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
        """Return a finished trial as Optuna's storage holds it.

        Args:
            end: number of the batch's last trial + 1.
        """
        first = trial.runs[0]
        steps = {int(step): value for step, value in first.steps.items()}
        return self.trial(
            STATES[trial.state],
            trial.setting,
            value=trial.value,
            intermediate_values=steps,
            user_attrs={
                "batch": trial.batch,
                "end": end,  # of its batch
                "runs": [asdict(run) for run in trial.runs],
            },
            system_attrs=proposed.attributes | Evaluations.load(self.sweep, first.job).attributes,
        )


def metric_of(objective: str) -> str | None:
    """Return the metric of evaluations during training that corresponds to an objective.

    None if there is none, so that trials cannot be pruned by it.
    """
    return SUCCESS_METRIC if objective == SUCCESS else objective if METRIC in objective else None


def _recorded(trial: FrozenTrial) -> Trial:
    """Convert a finished trial from Optuna's storage to its record in `trials.json`."""
    (state,) = [name for name, optuna_state in STATES.items() if optuna_state == trial.state]
    value = trial.value if trial.state == TrialState.COMPLETE else None
    runs = tuple(TrialRun(**run) for run in trial.user_attrs["runs"])
    return Trial(trial.number, trial.user_attrs["batch"], dict(trial.params), state, value, runs)
