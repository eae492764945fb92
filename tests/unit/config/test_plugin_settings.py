"""`plugins.NAME.key`: settings of plugins, on the command line, in kept files and in hooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rlcore import hookimpl
from rlcore.config.compose import compose, load, to_yaml
from rlcore.config.schema import PluginConfig, RunConfig, key
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.contracts.run import Run
from rlcore.plugins.entry_points import Installed
from rlcore.plugins.registry import Registry
from rlcore.training.callbacks import RunHooks

RLCORE_API = (0, 1)
heard: list[int] = []


@dataclass
class PatienceConfig(PluginConfig):
    """When to give up."""

    waits: int = key("evaluations that are waited for", 3, minimum=1, maximum=9)


@hookimpl
def rlcore_settings() -> list[str]:
    return [f"{__name__}:PatienceConfig"]


@hookimpl
def rlcore_after_run(run: Run) -> None:
    heard.append(run.config.plugins.my_patience.waits)


@pytest.fixture
def registry() -> Registry:
    return Registry.load([Installed("my-patience", __name__)], environ={})


def composed(registry: Registry, *words: str) -> RunConfig:
    return compose(list(words), registry=registry, require=())


def test_a_hook_finds_its_settings_and_can_be_left_out(registry, tmp_path):
    heard.clear()
    for words in ((), ("plugins.my_patience.waits=5",), ("plugins.my_patience.enabled=false",)):
        config = composed(registry, *words)
        hooks = RunHooks(registry.manager, 10.0, config.plugins)
        hooks.call("rlcore_after_run", run=Run(config, tmp_path, ()), summary={})
        hooks.check()
    assert heard == [3, 5]


def test_they_are_typed_like_any_key(registry, refused):
    with refused(ConfigError, "plugins.my_patience.waits", "int", "'long'"):
        composed(registry, "plugins.my_patience.waits=long")
    with refused(ConfigError, "'plugins.my_patience.waits'"):
        composed(registry, "plugins.my_patience.wait=2")


def test_a_run_outlives_a_plugin(registry, refused, tmp_path: Path):
    """A saved configuration with a section of an absent plugin is read; a command line is not."""
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(composed(registry, "plugins.my_patience.waits=5")))
    assert load(path, registry=registry).plugins.my_patience.waits == 5
    bare = Registry.load([], environ={})
    with pytest.warns(Warning, match="plugins.my_patience"):
        load(path, registry=bare)
    with refused(ConfigError, "plugins.my_patience"):
        composed(bare, "plugins.my_patience.waits=5")


def test_settings_that_are_no_dataclass_are_the_authors_error(registry, refused):
    registry.settings["my_patience"] = "builtins:dict"
    with refused(PluginError, "'my_patience'", "rlcore_settings"):
        composed(registry)
