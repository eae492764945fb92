"""End a run of a study early: what its process is told, and what it notes.

    SWEEP/.study/3.rule.json     the pruner and the trials of finished batches, for job 3
    SWEEP/.study/3.steps.json    its evaluations, and whether it was pruned, from its process

A process judges by itself and its rule alone, so that what is pruned does not depend on which of
the jobs that are played with it is faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import blaming, read_as
from rlcore.files.reading import Unreadable

if TYPE_CHECKING:
    from rlcore.contracts.run import Run

JOB = "RLCORE_SWEEP_JOB"
"""Environment variable of a job's process: SWEEP/NUMBER."""
FOLDER = ".study"
METRIC = "eval/success_once"
DURING_TRAINING = "step_"  # how labels of such evaluations begin


@dataclass(frozen=True)
class Known:
    """A trial of a finished batch, as a pruner sees it.

    Attributes:
        state: of Optuna, in upper case.
        value: of a complete one.
        steps: values by number of updates, of its first seed.
        attributes: what the pruner has noted of it.
    """

    state: str
    value: float | None
    steps: dict[str, float]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """By what a run is pruned.

    Attributes:
        metric: of evaluations.
        pruner, options: see :func:`rlcore_sweeps.methods.pruner_of`; "none": it is only watched.
        direction: of the study.
        study: its name.
        number: of the trial.
        known: the trials of finished batches, from number 0.
    """

    metric: str
    pruner: str
    options: dict[str, Any]
    direction: Literal["maximize", "minimize"]
    study: str
    number: int
    known: tuple[Known, ...]

    def write(self, sweep: Path, job: int) -> None:
        """Keep it for a job."""
        write_text(_file(sweep, job, "rule"), json.dumps(asdict(self)) + "\n")

    @classmethod
    def of(cls, file: Path) -> Rule:
        """The one in a file."""
        rule = read_as(cls, file)
        with blaming(file):
            require_updates(known.steps for known in rule.known)
        return rule

    def judge(self, steps: Mapping[int, float]) -> tuple[int | None, dict[str, Any]]:
        """Look at all evaluations of a run in their order.

        Returns:
            The number of updates after which it is pruned, None if it is not; what the pruner
            has noted of the trial.
        """
        import optuna
        from optuna.trial import TrialState, create_trial

        from rlcore_sweeps.methods import NO_PRUNER, pruner_of

        if self.pruner == NO_PRUNER:
            return None, {}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(
            study_name=self.study,
            direction=self.direction,
            sampler=optuna.samplers.RandomSampler(0),
            pruner=pruner_of(self.pruner, self.options),
        )
        failed = Known("FAIL", None, {})  # those of the same batch count for their numbers only
        for one in [*self.known, *[failed] * (self.number - len(self.known))]:
            study.add_trial(
                create_trial(
                    state=TrialState[one.state],
                    value=one.value,
                    intermediate_values={int(step): value for step, value in one.steps.items()},
                    system_attrs=one.attributes,
                )
            )
        trial = study.ask()
        pruned = None
        for step, value in sorted(steps.items()):
            trial.report(value, step)
            if trial.should_prune():
                pruned = step
                break
        return pruned, dict(study.get_trials(deepcopy=False)[-1].system_attrs)


@dataclass(frozen=True)
class Steps:
    """What a run's process has noted.

    Attributes:
        values: of evaluations during training, by number of updates.
        pruned: after how many updates it was ended; None: it was not.
        updates: how many it would have made.
        attributes: what the pruner has noted.
    """

    values: dict[str, float] = field(default_factory=dict)
    pruned: int | None = None
    updates: int | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, sweep: Path, job: int) -> Steps:
        """Those of a job; none where it had no evaluation during training."""
        file = _file(sweep, job, "steps")
        if not file.is_file():
            return cls()
        noted = read_as(cls, file)
        with blaming(file):
            require_updates([noted.values])
        return noted


def require_updates(steps: Iterable[Mapping[str, float]]) -> None:
    """Raise Unreadable where a name of a step is no number of updates, as JSON has it."""
    for name in (name for values in steps for name in values):
        if not (name.isascii() and name.isdecimal()):
            raise Unreadable(f"a step must be a number of updates, got {name!r:.60}")


def watch(run: Run, label: str, metrics: Mapping[str, float], sweep: Path, job: int) -> None:
    """Note an evaluation of a job, and stop its run where the rule says so."""
    file = _file(sweep, job, "rule")
    if not label.startswith(DURING_TRAINING) or not file.is_file():
        return
    rule = Rule.of(file)
    if rule.metric not in metrics:
        return
    before = Steps.of(sweep, job).values  # evaluations that a resumed run makes again come first
    values = {int(step): value for step, value in before.items() if int(step) < run.update}
    values[run.update] = float(metrics[rule.metric])
    pruned, attributes = rule.judge(values)
    updates = run.config.runner.max_epochs
    noted = Steps(
        {str(step): value for step, value in values.items()},
        pruned,
        updates if updates > 0 else None,
        attributes,
    )
    write_text(_file(sweep, job, "steps"), json.dumps(asdict(noted)) + "\n")
    if pruned is not None:
        run.stop(
            f"pruned by {rule.pruner} at update {pruned}: {rule.metric} {values[pruned]:.3f}, "
            f"compared with {len(rule.known)} earlier trials"
        )


def _file(sweep: Path, job: int, what: str) -> Path:
    return sweep / FOLDER / f"{job}.{what}.json"
