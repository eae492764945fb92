"""Names that look like numbers stay text, wherever they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlcore
from rlcore.config.compose import load, to_yaml
from rlcore.config.overrides import nest, parse_overrides
from rlcore.config.recipes import read_scalars
from rlcore.config.scalars import resolve_scalars, value_of
from rlcore.config.schema import RunConfig

TOY = ("env=toy", "model=toy", "algorithm=ppo")
NAMES = (
    *("1e5", "7_5", "123e456", "12e4567", "true", "False", "0x10", "1:30", "2024-01-02", "007"),
    *("+5", "1.50", "1e-4", "inf", "NaN", "0b11", "on", "yes"),
)
NAME = "runner.logger.experiment_name"


def name_of(values) -> str:
    """The experiment's name as it is bound: a value of a key of text becomes its text."""
    return str(resolve_scalars(values, RunConfig())["runner"]["logger"]["experiment_name"])


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stays_text_in_an_override_and_in_a_file(tmp_path, name):
    (override,) = parse_overrides([f"{NAME}={name}"])
    assert name_of(nest(NAME, value_of(override))) == name
    file = tmp_path / "config.yaml"
    file.write_text(f"runner: {{logger: {{experiment_name: {name}}}}}\n")
    assert name_of(read_scalars(file)) == name


def composed(folder: Path, more: str):
    file = folder / "experiment/mine.yaml"
    file.parent.mkdir(exist_ok=True)
    choices = "".join(f"  - override /{each.replace('=', ': ')}\n" for each in TOY)
    file.write_text(f"# @package _global_\ndefaults:\n{choices}{more}")
    return rlcore.compose(str(file))


def test_texts_in_lists_and_keys_of_numbers_and_truths(tmp_path):
    config = composed(
        tmp_path,
        "runner: {max_epochs: 1_0, logger: {logger_backends: [1e5, true]}}\n"
        "actor: {optim: {lr: 1e-4}}\n",
    )
    assert config.runner.max_epochs == 10 and config.actor.optim.lr == 1e-4
    assert config.runner.logger.logger_backends == ["1e5", "true"]
    words = ("runner.max_epochs=1_0", "actor.optim.lr=1e-4", "runner.keep_best=true")
    config = rlcore.compose(*TOY, *words, "runner.logger.logger_backends=[1e5,true]")
    assert (config.runner.max_epochs, config.actor.optim.lr) == (10, 1e-4)
    assert config.runner.keep_best is True
    assert config.runner.logger.logger_backends == ["1e5", "true"]


def test_a_saved_name_is_read_back_with_and_without_quotes(tmp_path):
    config = rlcore.compose(*TOY, f"{NAME}=1e5", "runner.logger.log_path=/7_5")
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert load(file).runner.logger.experiment_name == "1e5"
    file.write_text(to_yaml(config).replace("experiment_name: '1e5'", "experiment_name: 7_5"))
    assert load(file).runner.logger.experiment_name == "7_5"


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["1e5", "2024", "true"])
def test_a_recipe_with_such_a_name_is_found(tmp_path, name):
    """As a bare word, as `experiment=NAME`, and in the defaults of another recipe."""
    composed(tmp_path, "")
    (tmp_path / "experiment/mine.yaml").rename(tmp_path / f"experiment/{name}.yaml")
    for word in (name, f"experiment={name}"):
        config = rlcore.compose(word, config_dirs=[tmp_path])
        assert config.runner.logger.experiment_name == name
    (tmp_path / "experiment/other.yaml").write_text(
        f"# @package _global_\ndefaults:\n  - {name}\nactor: {{optim: {{lr: 0.5}}}}\n"
    )
    assert rlcore.compose("other", config_dirs=[tmp_path]).actor.optim.lr == 0.5


def test_null_is_no_name():
    assert rlcore.compose(*TOY, "actor.model.model_path=null").actor.model.model_path is None
    assert rlcore.compose(*TOY, f"{NAME}='null'").runner.logger.experiment_name == "null"
