"""Starts and tasks that a training run plays besides those of `env.eval`."""

from __future__ import annotations

import pytest

from rlcore.checks.further_sides import further_sides
from rlcore.checks.run import check
from rlcore.config.compose import compose
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import load_plugins

TOY = ("env=toy", "model=toy", "algorithm=rft", "algorithm.demonstrations=0")
TWO = "env.*.tasks=[reach-left,reach-up]"


def sides(*words: str) -> dict[str, list[str] | None]:
    found = further_sides(compose([*TOY, *words]), load_plugins())
    return {name: config.env.eval.tasks for name, config in found.items()}


def test_from_random_weights_there_is_nothing_to_forget(tmp_path):
    assert sides(TWO) == {}
    assert sides(TWO, "env.forgetting.tasks=[reach-right]") == {"forgetting": ["reach-right"]}
    begun = f"actor.model.model_path={tmp_path}"
    assert sides(TWO, begun) == {"forgetting": ["reach-right", "reach-down"]}
    assert sides(TWO, begun, "env.forgetting.tasks=[]") == {}
    assert sides(begun) == {}  # all tasks are trained on
    assert sides(TWO, begun, "runner.only_eval=true") == {}


def test_default_tasks_of_forgetting_play_as_many_starts_as_there_are(tmp_path, refused):
    """The toy env has 1000 held-out starts."""
    words = [*TOY, TWO, f"actor.model.model_path={tmp_path}", "env.forgetting.trials_per_task=1001"]
    (side,) = further_sides(compose(words), load_plugins()).values()
    assert side.env.eval.trials_per_task == 1000
    with refused(ConfigError, "trials_per_task", "at most 1000"):
        further_sides(compose([*words, "env.forgetting.tasks=[reach-right]"]), load_plugins())


def test_validation_starts_are_played_on_the_tasks_of_the_evaluation():
    config = compose([*TOY, TWO, "env.validation.trials_per_task=3"])
    (side,) = further_sides(config, load_plugins()).values()
    settings = side.env.eval
    assert (settings.split, settings.trials_per_task) == ("validation", 3)
    assert settings.tasks == ["reach-left", "reach-up"]


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("env.forgetting.tasks=[reach-up]", ("env.forgetting.tasks", "got reach-up")),
        ("env.forgetting.tasks=[reach-far]", ("'reach-far'",)),
        (
            "env.validation.trials_per_task=1001",
            ("env.validation.trials_per_task", "at most 1000", "got 1001"),
        ),
    ],
)
def test_a_side_that_can_not_be_played_is_refused(refused, word, named):
    with refused(ConfigError, *named):
        check(compose([*TOY, TWO, word]))
