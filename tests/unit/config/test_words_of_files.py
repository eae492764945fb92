"""Files of configurations: what they may hold, where they are found, and which keys they misuse."""

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


def test_a_group_of_ones_own_sets_a_section(recipe, refused):
    fast = {"optim/fast": "# @package actor.optim\nlr: 0.125\n"}
    assert recipe("  - /optim: fast\n", **fast).actor.optim.lr == 0.125
    assert recipe(words=("+optim=fast",), **fast).actor.optim.lr == 0.125
    with refused(ConfigError, "+optim=NAME", text=False):  # Hydra words it
        recipe(words=("optim=fast",), **fast)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("# @package actor.optm\nlr: 1\n", "'actor.optm'"),
        ("# @package _group_\nlr: 1\n", "_group_"),
        ("# @package hydra.launcher\nparallel: 2\n", "hydra"),
        ("# @package _global_\nhydra: {sweeper: {n_trials: 1}}\n", "hydra"),
        ("lr: 1\n", "# @package"),
    ],
)
def test_a_group_of_ones_own_that_sets_something_else_is_refused(recipe, refused, text, named):
    with refused(ConfigError, named):
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
def test_a_key_written_as_on_the_command_line_is_met_with_yaml(recipe, refused, more, key, hint):
    with refused(ConfigError, repr(key), hint) as error:
        recipe(more)
    assert "Did you mean" not in error.value.message


def test_nothing_is_proposed_in_its_own_place():
    assert did_you_mean("joblib", ["joblib"]) == ""
    assert did_you_mean("joblib", ["joblib", "jolib"]) == " Did you mean 'jolib'?"


def test_composing_the_recipe_again_repeats_no_warning(recipe):
    with pytest.warns(ConfigWarning, match=r"rollout\.sync"):
        config = recipe("rollout: {Sync: object_store}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert recipe_of(config) is not None


@pytest.mark.parametrize("choice", ["experiment=../../x", "experiment=/tmp/x", "other=x"])
def test_a_runs_folder_names_no_configuration_elsewhere(choice):
    kept = composable_recipe(RecipeConfig([choice, "env=toy"], ["/tmp"]), {"experiment", "env"})
    assert (kept.choices, kept.config_dirs) == (["env=toy"], [])
