"""Find the starts of an evaluation that are also trained on, and describe them. Light."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import EnvSpec
from rlcore.utils.text import abbreviate_list

HELD_OUT = "held-out starts"
TRAINED = "training starts"
VALIDATION = "validation starts"
Start = tuple[str, int]
"""(task name, trial number): the initial state of an episode."""


@dataclass(frozen=True)
class Learned:
    """Starts that were trained on: each trial of each task.

    Attributes:
        env: name of the env.
        tasks: names of the tasks.
        trials: trial numbers of each task.
    """

    env: str
    tasks: tuple[str, ...]
    trials: range

    def of(self, env: str, starts: Iterable[Start]) -> list[Start]:
        """Return those of `starts`, which are starts of `env`, that were trained on."""
        return [
            (task, trial)
            for task, trial in starts
            if env == self.env and task in self.tasks and trial in self.trials
        ]


def evaluated_starts(config: RunConfig, envs: Mapping[str, EnvSpec]) -> list[Start]:
    """List all starts that an evaluation visits.

    Args:
        envs: `{"train": EnvSpec, "eval": EnvSpec}`, here and in the functions below.
    """
    spec = envs["eval"]
    settings = config.env.eval
    trials = spec.trials(settings.split)[: settings.trials_per_task]
    return [(task, trial) for task in spec.tasks for trial in trials]


def shared_starts(
    config: RunConfig, envs: Mapping[str, EnvSpec], before: Iterable[Learned] = ()
) -> list[Start]:
    """List the starts of the evaluation at which rollouts and demonstrations may begin too.

    Args:
        before: further starts that the policy was trained on, by earlier attempts of the run.
    """
    train = envs["train"]
    visited = evaluated_starts(config, envs)
    current = Learned(train.name, tuple(train.tasks), train.trials(config.env.train.split))
    trained = set[Start]()
    for learned in (current, *before):
        trained.update(learned.of(envs["eval"].name, visited))
    return [start for start in visited if start in trained]


def starts_in_words(
    config: RunConfig, envs: Mapping[str, EnvSpec], before: Iterable[Learned] = ()
) -> str:
    """Describe which starts are evaluated, for reports: held-out, validation or training starts.

    Args:
        before: as for :func:`shared_starts`.
    """
    shared = shared_starts(config, envs, before)
    visited = evaluated_starts(config, envs)
    if not shared:
        return VALIDATION if config.env.eval.split == "validation" else HELD_OUT
    if len(shared) == len(visited):
        return TRAINED
    return f"starts, {len(shared)} of {len(visited)} of them {TRAINED}"


def refusal(config: RunConfig, envs: Mapping[str, EnvSpec]) -> str | None:
    """Return an error message if the run trains and evaluates on the same starts.

    None if the starts are disjoint, or `env.eval.allow_training_trials` permits shared ones.
    """
    shared = shared_starts(config, envs)
    if not shared or config.env.eval.allow_training_trials:
        return None
    return (
        f"env.eval must not visit starts that env.train trains on, got {in_short(shared)} under "
        f"env.train.split={config.env.train.split} and env.eval.split={config.env.eval.split}; "
        "env.eval.allow_training_trials=true evaluates on them anyway"
    )


def in_short(starts: Iterable[Start]) -> str:
    """Name the first two starts, and say how many more there are."""
    return abbreviate_list([f"{task} trial {trial}" for task, trial in starts], 2)
