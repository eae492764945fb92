"""Differences of configurations, and the recipe they are measured against."""

from rlcore.config.compose import changed, compose, load, recipe_of, to_yaml
from rlcore.config.differences import KeyDifference, differences
from rlcore.config.schema.sources import MISSING, merged
from rlcore.contracts.errors import ConfigError

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


def test_ignored_keys_of_several_configurations_are_left_out():
    configs = [{"name": {"it": i}, "names": 0, "seed": seed} for i, seed in enumerate((1, 1, 2))]
    assert differences(*configs, ignore=("name",)) == [KeyDifference("seed", (1, 1, 2))]


def test_the_recipe_of_a_configuration_has_the_values_of_its_choices():
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


def test_a_changed_configuration_has_the_same_recipe(tmp_path, refused):
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment" / "mine.yaml"
    file.write_text("# @package _global_\nrunner: {seed: 3}\n")
    config = compose(["experiment=mine", *TOY], config_dirs=[tmp_path])
    file.unlink()  # the recipe is not composed again
    other = changed(config, ["runner.seed=7", "actor.optim.lr=0.5"])
    assert (other.runner.seed, other.actor.optim.lr) == (7, 0.5)
    assert other.recipe == config.recipe
    assert recipe_of(other).runner.seed == recipe_of(config).runner.seed == 3
    with refused(ConfigError, "env=toy"):
        changed(config, ["env=toy"])


def test_each_file_is_a_layer_with_its_values():
    layers = compose([*TOY, "runner.seed=7"]).recipe.sources.files.layers
    chosen = {layer.group: layer.option for layer in layers}
    assert list(chosen) == ["", "env/train", "env/eval", "model", "algorithm"]
    assert list(chosen.values()) == ["train", "toy", "toy", "toy", "ppo"]
    assert [layer.package for layer in layers[1:4]] == ["env.train", "env.eval", "actor.model"]
    assert layers[2].values["env"]["eval"]["max_episode_steps"] == 20
    assert layers[2].file.name == "toy.yaml"


def test_later_values_win_unless_they_are_missing():
    trees = [{"a": {"x": 1, "y": [1]}, "b": 1}, {"a": {"y": [2], "z": 3}, "b": MISSING}]
    assert merged(trees) == {"a": {"x": 1, "y": [2], "z": 3}, "b": 1}
    assert merged([{"a": {"x": 1}}, {"a": None}, {"b": MISSING}]) == {"a": None, "b": MISSING}


def test_a_configuration_of_no_choice_has_no_recipe():
    assert recipe_of(compose(["runner.seed=1"], require=())) is None
