"""What files of configurations may hold, where they may lie, and what is said of a slip in them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from rlcore.config.compose import compose, recipe_of
from rlcore.config.schema import RecipeConfig
from rlcore.config.trusted_keys import composable_recipe
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError, did_you_mean

RECIPE = """# @package _global_
defaults:
  - override /env: toy
  - override /model: toy
  - override /algorithm: ppo
"""


@pytest.fixture
def recipe(tmp_path: Path):
    """`recipe(more, **files)`: compose a recipe that ends so, beside further files."""

    def composed(more: str = "", words: tuple[str, ...] = (), **files: str):
        for name, text in {"experiment/mine": RECIPE + more, **files}.items():
            file = tmp_path / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return compose(["experiment=mine", *words], config_dirs=[tmp_path])

    return composed


def test_a_file_of_an_env_beside_the_recipes_is_found(recipe):
    """As documents print it: config/NAME.yaml names config/env/train/OTHER.yaml."""
    other = {"experiment/env/train/other": "env_type: toy\ntotal_num_envs: 2\n"}
    config = recipe("  - override /env/train: other\n", **other)
    assert config.env.train.total_num_envs == 2
    assert config.env.eval.total_num_envs != 2


def test_a_group_of_ones_own_sets_a_section(recipe):
    fast = {"optim/fast": "# @package actor.optim\nlr: 0.125\n"}
    assert recipe("  - /optim: fast\n", **fast).actor.optim.lr == 0.125
    assert recipe(words=("+optim=fast",), **fast).actor.optim.lr == 0.125
    with pytest.raises(ConfigError, match="No match in the defaults list") as caught:
        recipe(words=("optim=fast",), **fast)
    assert "+optim=NAME" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# @package actor.optm\nlr: 1\n", "unknown key 'actor.optm'"),
        ("# @package _group_\nlr: 1\n", "names no section"),
        ("# @package hydra.launcher\nparallel: 2\n", "of hydra"),
        ("# @package _global_\nhydra: {sweeper: {n_trials: 1}}\n", "of hydra"),
        ("lr: 1\n", "must begin with the line"),
    ],
)
def test_a_group_of_ones_own_that_sets_something_else_is_refused(recipe, text, said):
    with pytest.raises(ConfigError, match=said):
        recipe("  - /optim: fast\n", **{"optim/fast": text})


@pytest.mark.parametrize(
    ("more", "key", "hint"),
    [
        ("algorithm.reward_type: x\n", "algorithm.reward_type", "algorithm: {reward_type: VALUE}"),
        ("actor: {optim.lr: 1}\n", "actor.optim.lr", "actor: {optim: {lr: VALUE}}"),
        ("env/train: toy\n", "env/train", "defaults: [override /env/train: NAME]"),
        ("model: toy\n", "model", "defaults: [override /model: NAME]"),
        ("experiment: quickstart\n", "experiment", "defaults: [NAME]"),
    ],
)
def test_a_key_of_a_file_that_is_written_as_a_word_is_told_so(recipe, more, key, hint):
    with pytest.raises(ConfigError) as caught:
        recipe(more)
    assert repr(key) in caught.value.message and "Did you mean" not in caught.value.message
    assert hint in (caught.value.hint or "")


def test_nothing_is_proposed_in_its_own_place():
    assert did_you_mean("joblib", ["joblib"]) == ""
    assert did_you_mean("joblib", ["joblib", "jolib"]) == " Did you mean 'jolib'?"


def test_what_the_recipe_alone_would_take_is_not_told(recipe):
    """The run says what it takes; composing the recipe again for its papers says nothing."""
    with pytest.warns(ConfigWarning, match="is read as"):
        config = recipe("rollout: {Sync: object_store}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert recipe_of(config) is not None


@pytest.mark.parametrize("choice", ["experiment=../../x", "experiment=/tmp/x", "other=x"])
def test_a_runs_folder_names_no_configuration_elsewhere(choice):
    kept = composable_recipe(RecipeConfig([choice, "env=toy"], ["/tmp"]), {"experiment", "env"})
    assert (kept.choices, kept.config_dirs) == (["env=toy"], [])
