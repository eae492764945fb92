"""Runs are named after what they are composed from."""

from __future__ import annotations

import os

import pytest

from rlcore.config.compose import changed, compose, load, to_yaml
from rlcore.config.run_name import run_name

NAME = "runner.logger.experiment_name"


def name(config) -> str:
    return config.runner.logger.experiment_name


def test_a_run_without_a_recipe_is_named_by_its_components(made):
    assert name(made(base=["env=toy", "model=toy", "algorithm=plain"])) == "toy-toy-plain"
    options = {"env/train/mine.yaml": "defaults: [toy]\n", "model/small.yaml": "defaults: [toy]\n"}
    words = ["env/train=mine", "env/eval=toy", "model=small", "algorithm=plain"]
    assert name(made(base=words, files=options)) == "mine-small-plain"


def test_what_is_not_chosen_is_left_out(made, registry):
    assert name(compose(["env=toy"], require=("env",), registry=registry)) == "toy"
    two = ["env=toy", "model=toy", "runner.only_eval=true"]
    assert name(compose(two, registry=registry)) == "toy-toy"
    assert name(compose([], require=(), registry=registry)) == "run"


def test_a_recipe_and_a_name_that_is_given_win(made):
    recipe = {"experiment/e.yaml": "# @package _global_\nrunner: {seed: 4}\n"}
    assert name(made("experiment=e", files=recipe)) == "e"
    named = {"experiment/f.yaml": "# @package _global_\nrunner: {logger: {experiment_name: g}}\n"}
    assert name(made("experiment=f", files=named)) == "g"
    assert name(made("experiment=f", f"{NAME}=h")) == "h"
    assert name(made(f"{NAME}=run")) == "run"


def test_a_run_that_is_loaded_keeps_its_name(made, registry, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(made(f"{NAME}=run")))
    assert name(load(file, ["runner.seed=1"], registry)) == "run"
    assert name(changed(made(f"{NAME}=mine"), ["runner.seed=1"], registry)) == "mine"


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("my env", "my_env"),
        ("a/b=c'$(rm)", "a_b_c_rm"),
        ("..", ""),
        (".hidden", "hidden"),
        ("--flag", "flag"),
        ("pi0.5+x", "pi0.5+x"),
        ("机器人", "机器人"),
        ("x" * 300, "x" * 64),
        ("é" * 64, "é" * 32),  # of two bytes each
    ],
)
def test_any_name_of_a_component_gives_a_name_of_a_folder(option, part, tmp_path):
    both = run_name({"env/train": option, "algorithm": "ppo"})
    assert both == (f"{part}-ppo" if part else "ppo")
    os.mkdir(tmp_path / f"{both}-eval-2")


def test_a_file_with_an_odd_name_is_an_option_and_names_a_folder(made):
    files = {"model/my model.yaml": "defaults: [toy]\n"}
    words = ["env=toy", "model=my model", "algorithm=plain"]
    assert name(made(base=words, files=files)) == "toy-my_model-plain"
