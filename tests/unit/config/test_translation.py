"""Keys in another case are corrected, and those of other systems are translated by plugins."""

from __future__ import annotations

import pytest

from rlcore.config.compose import compose
from rlcore.config.translation import put, take
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import PluginError
from rlcore.contracts.hookspecs import hookimpl

TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("algorithm.Style=bold", lambda c: c.algorithm.style == "bold"),
        ("algorithm.DIAL.level=2", lambda c: c.algorithm.dial.level == 2),
    ],
)
def test_another_case_is_corrected_and_warned_about(registry, override, read):
    with pytest.warns(ConfigWarning):
        assert read(compose([*TOY, override], registry=registry))


def test_a_plugin_knows_those_of_its_system(registry):
    class Known:
        @staticmethod
        @hookimpl
        def rlcore_translate_keys(layers, config):
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
        def rlcore_translate_keys(layers, config):
            raise KeyError("look")

    registry.manager.register(Broken)
    with pytest.raises(
        PluginError, match=r"^rlcore_translate_keys: KeyError: 'look' \(.*translation\.py:\d+"
    ):
        compose(TOY, registry=registry)
