"""Which starts and tasks a training run plays besides those of `env.eval`."""

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


def test_where_nobody_asked_fewer_starts_than_usual_are_enough(tmp_path):
    """The toy env has 1000 held-out starts."""
    words = [*TOY, TWO, f"actor.model.model_path={tmp_path}", "env.forgetting.trials_per_task=1001"]
    (side,) = further_sides(compose(words), load_plugins()).values()
    assert side.env.eval.trials_per_task == 1000
    with pytest.raises(ConfigError, match="trials_per_task must be at most 1000"):
        further_sides(compose([*words, "env.forgetting.tasks=[reach-right]"]), load_plugins())


def test_validation_starts_are_played_on_the_tasks_of_the_evaluation():
    config = compose([*TOY, TWO, "env.validation.trials_per_task=3"])
    (side,) = further_sides(config, load_plugins()).values()
    settings = side.env.eval
    assert (settings.split, settings.trials_per_task) == ("validation", 3)
    assert settings.tasks == ["reach-left", "reach-up"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["env.forgetting.tasks=[reach-up]"],
         "env.forgetting.tasks must not name tasks that are trained on, got reach-up"),
        (["env.forgetting.tasks=[reach-far]"], "toy has no task 'reach-far'"),
        (["env.validation.trials_per_task=1001"],
         "env.validation.trials_per_task must be at most 1000 .the validation trials of toy., got "
         "1001"),
    ],
)  # fmt: skip
def test_what_can_not_be_played_is_refused(words, said):
    with pytest.raises(ConfigError, match=said):
        check(compose([*TOY, TWO, *words]))
