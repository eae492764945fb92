"""Differences of configurations, and the recipe they are measured against."""

from rlcore.config.compose import compose, load, recipe_of, to_yaml
from rlcore.config.differences import KeyDifference, differences

TOY = ["env=toy", "model=toy", "algorithm=ppo"]


def test_leaves_that_differ_in_the_order_they_appear():
    first = {"a": {"x": 1, "y": [1, 2]}, "b": None, "c": {}}
    second = {"a": {"x": 1, "y": [1, 3]}, "b": None, "c": {"new": "n"}}
    assert differences(first, second) == [
        KeyDifference("a.y", ([1, 2], [1, 3])),
        KeyDifference("c", ({}, None)),
        KeyDifference("c.new", (None, "n")),
    ]
    assert differences(first, first) == []


def test_of_several_and_without_what_is_ignored():
    configs = [{"name": {"it": i}, "names": 0, "seed": seed} for i, seed in enumerate((1, 1, 2))]
    assert differences(*configs, ignore=("name",)) == [KeyDifference("seed", (1, 1, 2))]


def test_the_recipe_of_a_configuration_is_what_its_choices_give():
    config = compose([*TOY, "runner.seed=7"])
    assert config.recipe.choices == TOY
    recipe = recipe_of(config)
    assert recipe == compose(TOY)
    assert recipe.runner.seed == 0


def test_an_experiment_is_the_recipe_whatever_else_is_chosen(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /env: toy\n  - override /model: toy\n"
        "  - override /algorithm: ppo\nrunner:\n  seed: 3\n"
    )
    config = compose(["experiment=mine", "env=toy"], config_dirs=[tmp_path], require=())
    assert config.recipe.config_dirs == [str(tmp_path)]
    assert recipe_of(config).recipe.choices == ["experiment=mine"]
    assert recipe_of(config).runner.seed == 3


def test_the_recipe_survives_the_file(tmp_path):
    config = compose([*TOY, "runner.seed=7"])
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    loaded = load(tmp_path / "config.yaml")
    assert loaded == config
    assert recipe_of(loaded) == compose(TOY)


def test_a_configuration_of_no_choice_has_no_recipe():
    assert recipe_of(compose(["runner.seed=1"], require=())) is None
