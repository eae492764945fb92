"""Find the starts of an evaluation that are trained on too, and describe them. Light."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import EnvSpec
from rlcore.terminal.text import some

HELD_OUT, TRAINED = "held-out starts", "training starts"
VALIDATION = "validation starts"
Start = tuple[str, int]
"""(task, trial)."""


@dataclass(frozen=True)
class Learned:
    """Starts that were trained on.

    Attributes:
        env: its name.
        tasks: by name.
        trials: of each task.
    """

    env: str
    tasks: tuple[str, ...]
    trials: range

    def of(self, env: str, starts: Iterable[Start]) -> list[Start]:
        """Those among some starts of an env."""
        return [
            (task, trial)
            for task, trial in starts
            if env == self.env and task in self.tasks and trial in self.trials
        ]


def evaluated_starts(config: RunConfig, envs: Mapping[str, EnvSpec]) -> list[Start]:
    """List all starts that an evaluation visits, `envs` by side."""
    spec, settings = envs["eval"], config.env.eval
    trials = spec.trials(settings.split)[: settings.trials_per_task]
    return [(task, trial) for task in spec.tasks for trial in trials]


def shared_starts(
    config: RunConfig, envs: Mapping[str, EnvSpec], before: Iterable[Learned] = ()
) -> list[Start]:
    """Those of them that rollouts and demonstrations may begin at.

    Args:
        before: what the policy was trained on besides, by earlier attempts.
    """
    train, visited = envs["train"], evaluated_starts(config, envs)
    now = Learned(train.name, tuple(train.tasks), train.trials(config.env.train.split))
    found = {start for each in (now, *before) for start in each.of(envs["eval"].name, visited)}
    return [start for start in visited if start in found]


def starts_in_words(
    config: RunConfig, envs: Mapping[str, EnvSpec], before: Iterable[Learned] = ()
) -> str:
    """Describe which starts are evaluated, in the words of reports."""
    shared, all_of_them = shared_starts(config, envs, before), evaluated_starts(config, envs)
    if not shared:
        return VALIDATION if config.env.eval.split == "validation" else HELD_OUT
    if len(shared) == len(all_of_them):
        return TRAINED
    return f"starts, {len(shared)} of {len(all_of_them)} of them {TRAINED}"


def refusal(config: RunConfig, envs: Mapping[str, EnvSpec]) -> str | None:
    """What is wrong with training and evaluating on the same starts; None where nothing is, or
    where it was asked for by name."""
    shared = shared_starts(config, envs)
    if not shared or config.env.eval.allow_training_trials:
        return None
    return (
        f"env.eval must not visit starts that env.train trains on, got {in_short(shared)} under "
        f"env.train.split={config.env.train.split} and env.eval.split={config.env.eval.split}; "
        "env.eval.allow_training_trials=true evaluates on them anyway"
    )


def in_short(starts: Iterable[Start]) -> str:
    """The first of them by name, and how many more there are."""
    return some([f"{task} trial {trial}" for task, trial in starts], 2)
