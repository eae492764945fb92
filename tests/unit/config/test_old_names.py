"""Old spellings and values of our own: understood, and warned about."""

from __future__ import annotations

import pytest

from rlcore.config.compose import compose
from rlcore.config.old_names import ConfigWarning, put, take
from rlcore.contracts.errors import PluginError
from rlcore.contracts.hookspecs import hookimpl

TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("algorithm.Style=bold", lambda c: c.algorithm.style == "bold"),
        ("algorithm.DIAL.level=2", lambda c: c.algorithm.dial.level == 2),
        ("rollout.sync=shared_memory", lambda c: c.rollout.sync == "object_store"),
    ],
)
def test_old_spellings_are_mapped_and_warned_about(registry, override, read):
    with pytest.warns(ConfigWarning):
        assert read(compose([*TOY, override], registry=registry))


def test_a_plugin_knows_those_of_its_system(registry):
    class Known:
        @staticmethod
        @hookimpl
        def rlcore_old_keys(layers, config):
            assert config.algorithm.style == "calm"
            for layer in layers:
                if "look" in layer:
                    put(layer, "algorithm.style", take(layer, "look")[1])

    registry.manager.register(Known)
    assert compose([*TOY, "look=bold"], registry=registry).algorithm.style == "bold"


def test_a_plugin_that_fails_there_is_one_error(registry):
    class Broken:
        @staticmethod
        @hookimpl
        def rlcore_old_keys(layers, config):
            raise KeyError("look")

    registry.manager.register(Broken)
    with pytest.raises(PluginError, match=r"^rlcore_old_keys: KeyError: 'look' \(.*names\.py:\d+"):
        compose(TOY, registry=registry)
