"""Components chosen side by side, by `@section` and from files of one side."""

from __future__ import annotations

import pytest

from rlcore.config.choices import choices_by_side
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError, PluginError

REST = ("model=toy", "algorithm=plain")
GLOBAL = "# @package _global_\n"
TWO_SIDES = {  # files of the user's own
    "env/train/mine.yaml": "env_type: toy\nreward_coef: 5.0\n",
    "env/eval/mine.yaml": "env_type: toy\nreward_coef: 2.0\n",
    "env/both.yaml": "env_type: toy\nreward_coef: 7.0\n",
}


def rewards(config) -> tuple[float, float]:
    return config.env.train.reward_coef, config.env.eval.reward_coef


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["env/train=both", "env/eval=toy"], (7, 1)),
        (["env/train=mine", "env/eval=mine"], (5, 2)),
        (["env=mine"], (5, 2)),
        (["env/eval=mine", "env=both"], (7, 2)),  # one side wins, wherever it stands
        (["env/train=both"], (7, 7)),  # alone it stands for both
        (["env/eval=both"], (7, 7)),
    ],
)
def test_sides_on_the_command_line(made, words, expected):
    config = made(base=[*words, *REST], files=TWO_SIDES)
    assert rewards(config) == expected
    assert (config.env.train.split, config.env.eval.split) == ("train", "heldout")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["env.*.reward_coef=3"], (3, 3)),
        (["env.*.reward_coef=3", "env.eval.reward_coef=4"], (3, 4)),
        (["env.eval.reward_coef=4", "env.*.reward_coef=3"], (3, 3)),  # later ones win
    ],
)
def test_a_key_of_both_sides(made, words, expected):
    assert rewards(made(*words, base=["env=mine", *REST], files=TWO_SIDES)) == expected


def test_a_key_that_neither_side_has(made, refused):
    with refused(ConfigError, "'env.train.reward_koef'", "reward_coef"):
        made("env.*.reward_koef=3")


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "lines",
    [
        ["env/train: both", "env/eval: mine"],
        ["/env/train: both", "/env/eval: mine"],
        ["override /env/train: both", "override /env/eval: mine"],
        ["env/both@env.train", "env/mine@env.eval"],
        ["env@env.train: both", "env@env.eval: mine"],
        ["/env/train/both", "_self_", "env/eval/mine"],
        ["env: both", "env/eval: mine"],
    ],
)
@pytest.mark.parametrize("model", ["model: toy", "model/toy@actor.model", "/model/toy"])
def test_sides_in_the_defaults_of_a_recipe(made, lines, model):
    entries = "".join(f"  - {line}\n" for line in [*lines, model])
    recipe = f"{GLOBAL}defaults:\n{entries}env: {{train: {{total_num_envs: 3}}}}\n"
    files = {**TWO_SIDES, "experiment/e.yaml": recipe}
    config = made(base=["experiment=e", "algorithm=plain"], files=files)
    assert rewards(config) == (7, 2)
    assert config.env.train.total_num_envs == 3  # the recipe's own keys go before its env's
    assert config.actor.model.model_type == "toy"


@pytest.mark.long
def test_a_recipe_of_one_side_and_one_that_extends_it(made):
    files = {
        **TWO_SIDES,
        "experiment/base.yaml": f"{GLOBAL}defaults:\n  - env/train: both\n  - model: toy\n",
        "experiment/more.yaml": f"{GLOBAL}defaults:\n  - base\n  - env/eval: mine\n",
        "experiment/other.yaml": f"{GLOBAL}defaults:\n  - more\n  - env: toy\n",
    }
    for recipe, expected in (("base", (7, 7)), ("more", (7, 2)), ("other", (1, 1))):
        config = made(base=[f"experiment={recipe}", "algorithm=plain"], files=files)
        assert rewards(config) == expected, recipe
    by_hand = made(base=["experiment=more", "algorithm=plain", "env=toy"])
    assert rewards(by_hand) == (1, 1)  # the command line goes before all of them


def test_files_of_one_side_are_no_options_of_the_other(made, refused):
    files = {"env/train/left.yaml": "env_type: toy\n"}
    assert made(base=["env/train=left", "env/eval=toy", *REST], files=files)
    with refused(PluginError, "env 'left'", "toy"):
        made(base=["env=left", *REST])
    with refused(PluginError, "env 'left'"):
        made(base=["env/train=left", *REST])  # alone it would stand for both


def test_a_section_that_holds_no_such_component(made, refused):
    files = {"experiment/e.yaml": f"{GLOBAL}defaults:\n  - env/toy@env.tarin\n"}
    with refused(ConfigError, "env.train", "env.eval", "env.tarin"):
        made(base=["experiment=e", *REST], files=files)


def test_choices_by_side():
    words = ["env=a", "model=m", "env/eval=b"]
    assert choices_by_side(words) == ["env/train=a", "model=m", "env/eval=b"]
    assert choices_by_side(["experiment=x=y"]) == ["experiment=x=y"]


def test_a_component_is_exchanged_not_deleted(made, refused):
    for word in ("~env", "~env/train", "~model=toy"):
        with refused(ConfigError, word):
            made(base=["env=toy", *REST, word])


def test_a_recipe_that_is_evaluated_only(made, refused):
    """`NAME_eval` is NAME with runner.only_eval=true, where it is no recipe of its own."""
    files = {"experiment/Run.yaml": GLOBAL + "runner: {seed: 4}\n"}
    with pytest.warns(ConfigWarning, match=r"experiment=Run runner\.only_eval=true"):
        config = made("experiment=run_eval", files=files)
    assert (config.runner.only_eval, config.runner.seed) == (True, 4)
    assert config.recipe.choices[-1] == "experiment=Run"
    own = {"experiment/Run_eval.yaml": GLOBAL + "runner: {seed: 9}\n"}
    config = made("experiment=Run_eval", files=own)
    assert (config.runner.only_eval, config.runner.seed) == (False, 9)
    with refused(ConfigError, "experiment 'walk_eval'", text=False):  # it counts the recipes
        made("experiment=walk_eval")
