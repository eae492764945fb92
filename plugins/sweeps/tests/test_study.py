"""Studies: what is proposed, summary_lines and pruned, and that a kill changes none of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from hydra.core.utils import JobReturn, JobStatus
from optuna.trial import TrialState, create_trial
from rlcore_sweeps.job_record import JobFailedError, JobRecord
from rlcore_sweeps.pruning import PruningRule, record_evaluation
from rlcore_sweeps.samplers import SAMPLERS, sampler_of
from rlcore_sweeps.space import Space
from rlcore_sweeps.study import LOG, NAME, Study
from rlcore_sweeps.study_record import StudyRecord
from rlcore_sweeps.study_settings import StudySettings
from rlcore_sweeps.study_summary import summary_lines

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.run import Run

UPDATES = 4
PLAN = {
    "n_trials": 7,
    "batch_size": 2,
    "seeds": [0, 1],
    "direction": "maximize",
    "sampler": "tpe",
    "sampler_options": {"n_startup_trials": 2},
    "pruner": "median",
    "pruner_options": {"n_startup_trials": 2},
    "seed": 3,
}
WORDS = ["env=toy", "lr=tag(log,interval(1e-5,1e-1))", "env.eval.split=validation"]


class Machine:
    """A launcher whose runs end at once. A learning rate is the better the nearer it is to 1e-3.

    Args:
        dies: the job before which its process is killed.
        fails: jobs that fail.
    """

    def __init__(self, sweep: Path, dies: int | None = None, fails: tuple[int, ...] = ()) -> None:
        (sweep / ".jobs").mkdir(parents=True, exist_ok=True)
        self.sweep, self.dies, self.fails = sweep, dies, fails
        self.played: list[int] = []

    def __call__(self, job_overrides, first):
        return [self.play(job, words) for job, words in enumerate(job_overrides, first)]

    def play(self, job: int, words: list[str]) -> JobReturn:
        if job == self.dies:
            raise KeyboardInterrupt
        values = dict(word.split("=", 1) for word in words)
        success = (
            1 - abs(math.log10(float(values["lr"])) + 3) / 2 - 0.1 * int(values["runner.seed"])
        )
        done = JobRecord.load(self.sweep, job)
        if done is None:
            self.played.append(job)
            self.run(job, success)
            JobRecord(job, tuple(words), folder=str(self.sweep / str(job)), state="done").write(
                self.sweep
            )
        else:
            assert done.words == tuple(words)  # the same job as before
        returned = JobReturn(status=JobStatus.COMPLETED)
        returned.return_value = success
        if job in self.fails:
            returned = JobReturn(status=JobStatus.FAILED)
            returned.return_value = ValueError("diverged")
        return returned

    def run(self, job: int, success: float) -> None:
        run = Run(SimpleNamespace(runner=SimpleNamespace(max_epochs=UPDATES)), self.sweep, ())
        for update in range(1, UPDATES):
            vars(run)["update"] = update
            metrics = {"eval/success_once": success * update / UPDATES}
            record_evaluation(run, f"step_{update:06d}", metrics, self.sweep, job)
            if run.steering.stopped:
                return


def study(machine: Machine, default=None, **changes) -> Study:
    settings = StudySettings(**{**PLAN, **changes})
    space = Space.parse(WORDS, {})
    objective = "success_after.rate"
    return Study(settings, space, objective, "validation", machine.sweep, machine, default)


def settings(trials: StudyRecord) -> list[float]:
    return [trial.setting["lr"] for trial in trials.trials]


def test_a_trial_is_the_mean_of_its_seeds_and_the_best_of_them_is_named(elsewhere):
    trials = study(Machine(elsewhere), pruner="none").run()
    assert len(trials.trials) == 7 and trials.count("complete") == 7
    values = [1 - abs(math.log10(lr) + 3) / 2 - 0.05 for lr in settings(trials)]
    assert [trial.value for trial in trials.trials] == pytest.approx(values)
    assert trials.best == values.index(max(values))
    jobs = [[run.job for run in trial.runs] for trial in trials.trials]
    # first seeds of a batch, then the others
    assert jobs == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 13]]
    assert StudyRecord.load(elsewhere) == trials


def test_a_trial_pruned_in_its_first_seed_ends(elsewhere):
    machine = Machine(elsewhere)
    trials = study(machine).run()
    pruned = [trial for trial in trials.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        (run,) = trial.runs
        first = str(run.pruned)
        # complete trials of earlier batches, at the same update
        others = sorted(
            other.runs[0].steps[first]
            for other in trials.trials
            if other.batch < trial.batch and other.state == "complete"
        )
        middle = (others[(len(others) - 1) // 2] + others[len(others) // 2]) / 2
        assert max(run.steps.values()) < middle
        assert trial.value is None and run.pruned < UPDATES
    assert len(machine.played) == 14 - len(pruned)
    assert any("pruning" in line for line in summary_lines(trials))


@pytest.mark.parametrize(
    "sampler",
    ["tpe", *(pytest.param(name, marks=pytest.mark.long) for name in ("random", "nsgaii"))],
)
def test_a_killed_study_resumes_to_the_same_trials(elsewhere, sampler):
    options = {"sampler": sampler, "sampler_options": {}}
    whole = Machine(elsewhere / "whole")
    expected = study(whole, **options).run()
    for dies in whole.played:
        first = Machine(elsewhere / str(dies), dies=dies)
        with pytest.raises(KeyboardInterrupt):
            study(first, **options).run()
        second = Machine(elsewhere / str(dies))
        trials = study(second, **options).run()
        assert trials == expected
        assert sorted(first.played + second.played) == whole.played  # none twice


def test_a_line_that_was_being_written_is_given_up(elsewhere):
    expected = study(Machine(elsewhere / "whole")).run()
    log = elsewhere / "whole" / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    assert study(Machine(elsewhere / "whole")).run() == expected


def test_optuna_opens_its_storage(elsewhere):
    trials = study(Machine(elsewhere)).run()
    file = optuna.storages.journal.JournalFileBackend(str(elsewhere / LOG))
    stored = optuna.load_study(study_name=NAME, storage=optuna.storages.JournalStorage(file))
    assert [trial.params["lr"] for trial in stored.trials] == settings(trials)
    assert stored.best_trial.number == trials.best
    assert [trial.state.name.lower().replace("fail", "failed") for trial in stored.trials] == [
        trial.state for trial in trials.trials
    ]


def test_the_recipes_own_setting_comes_first_and_is_never_pruned(elsewhere):
    trials = study(Machine(elsewhere), {"lr": 1e-5}, batch_size=1).run()
    assert settings(trials)[0] == 1e-5 and trials.trials[0].state == "complete"


def test_a_failed_run_fails_its_trial_only(elsewhere):
    trials = study(Machine(elsewhere, fails=(1,)), pruner="none").run()
    assert [trial.state for trial in trials.trials] == ["complete", "failed", *["complete"] * 5]
    assert [len(trial.runs) for trial in trials.trials][:2] == [2, 1]


def test_a_study_whose_first_trials_all_fail_ends_and_can_go_on(refused, elsewhere):
    with refused(JobFailedError, "2 trials"):
        study(Machine(elsewhere, fails=(0, 1))).run()
    assert study(Machine(elsewhere)).run().count("failed") == 0


def test_more_trials_can_follow(refused, elsewhere):
    study(Machine(elsewhere), n_trials=3).run()
    more = study(Machine(elsewhere), n_trials=6).run()
    assert len(more.trials) == 6
    assert [trial.batch for trial in more.trials] == [0, 0, 1, 2, 2, 3]
    with refused(ConfigError, "direction=maximize"):
        study(Machine(elsewhere), direction="minimize").run()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [({2: 0.5}, None), ({2: 0.3}, 2), ({1: 0.1, 2: 0.5}, 1), ({1: 0.3, 2: 0.39}, 2)],
)
def test_the_median_of_finished_trials_prunes(steps, expected):
    """Those that are complete had 0.2 at update 1, and 0.2, 0.4, 0.6 at 2: a run is pruned below
    0.2, then below 0.4."""
    finished = [
        create_trial(value=1.0, intermediate_values={1: 0.2, 2: value}) for value in (0.2, 0.4, 0.6)
    ]
    pruned = create_trial(state=TrialState.PRUNED, intermediate_values={1: 0.9, 2: 0.9})
    finished.append(pruned)  # does not count
    rule = PruningRule("m", "median", {"n_startup_trials": 3}, "maximize", number=5, finished=4)
    assert rule.judge(steps, finished)[0] == expected


def test_successive_halving_compares_with_earlier_trials():
    """A rung at update 1: 0.5 was there before, so 0.4 is not among the better half of the two."""
    options = {"min_resource": 1, "reduction_factor": 2}
    first = PruningRule("m", "successive_halving", options, "maximize", number=0, finished=0)
    pruned, noted = first.judge({1: 0.5}, [])
    assert pruned is None and noted == {"completed_rung_0": 0.5}
    finished = [create_trial(value=1.0, intermediate_values={1: 0.5}, system_attrs=noted)]
    second = PruningRule("m", "successive_halving", options, "maximize", number=1, finished=1)
    assert second.judge({1: 0.4}, finished)[0] == 1 and second.judge({1: 0.6}, finished)[0] is None


@pytest.mark.parametrize(
    ("word", "kind", "facts"),
    [
        ("a=interval(0,1)", "FloatDistribution", {"low": 0.0, "high": 1.0, "log": False}),
        ("a=tag(log,interval(1e-6,1e-3))", "FloatDistribution", {"low": 1e-6, "log": True}),
        ("a=int(interval(1,8))", "IntDistribution", {"low": 1, "high": 8, "step": 1}),
        ("a=range(1,10,2)", "IntDistribution", {"low": 1, "high": 9, "step": 2}),
        ("a=range(0,4)", "IntDistribution", {"low": 0, "high": 3}),
        ("a=range(0.1,0.5,0.1)", "FloatDistribution", {"low": 0.1, "high": 0.4, "step": 0.1}),
        ("a=1,2", "CategoricalDistribution", {"choices": (1, 2)}),
        ("a=choice(x,'y z')", "CategoricalDistribution", {"choices": ("x", "y z")}),
        ("a='y z','b,c'", "CategoricalDistribution", {"choices": ("y z", "b,c")}),
        ("model=toy,pi0", "CategoricalDistribution", {"choices": ("toy", "pi0")}),
    ],
)
def test_distributions_in_hydras_grammar(word, kind, facts):
    (choice,) = Space.parse([word], {}).choices.values()
    assert type(choice.distribution).__name__ == kind
    assert {name: getattr(choice.distribution, name) for name in facts} == facts


def test_distributions_of_a_recipe_and_of_the_command_line():
    params = {"a": {"b": "interval(0,1)", "c": [1, 2]}, "d": "x,y", "runner": {"max_epochs": 4}}
    space = Space.parse(["a.b=0.5", "+e=1,2"], params)
    assert list(space.choices) == ["a.c", "d", "e"]
    assert space.fixed == ("runner.max_epochs=4", "a.b=0.5")
    assert space.words({"a.c": 2, "d": "y", "e": 1}) == ["a.c=2", "d=y", "+e=1"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["a=1"], "interval("),
        (["runner.seed=0,1"], "runner.seed"),
        (["a=interval(1,0)"], "low <= high"),
        (["a=tag(log,interval(0,1))"], "low"),
    ],
)
def test_an_invalid_space_is_refused(refused, words, named):
    with refused(ConfigError, named, text=False):  # Hydra and Optuna word some of them
        Space.parse(words, {})


def test_the_draws_of_a_sampler_depend_on_study_and_trial():
    for name in SAMPLERS:
        draws = {
            (seed, number): _first(sampler_of(name, {}, seed, number))
            for seed in (0, 1)
            for number in (0, 1)
        }
        assert len(set(draws.values())) == 4
        assert draws[1, 1] == _first(sampler_of(name, {}, 1, 1))


def _first(sampler) -> float:
    trial = optuna.create_study(sampler=sampler).ask(
        {"x": optuna.distributions.FloatDistribution(0, 1)}
    )
    return trial.params["x"]


def test_the_file_of_trials_is_plain_json(elsewhere):
    study(Machine(elsewhere)).run()
    kept = json.loads((elsewhere / "trials.json").read_text())
    assert kept["planned"] == 7 and kept["seeds"] == [0, 1] and kept["heldout"] == {}
    assert {trial["state"] for trial in kept["trials"]} <= {"complete", "pruned"}
