"""Keys in another case are corrected, and those of other systems are translated by plugins."""

from __future__ import annotations

import pytest

from rlcore.config.compose import compose
from rlcore.config.translation import put, take
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import PluginError
from rlcore.contracts.hookspecs import hookimpl

TOY = ["env=toy", "model=toy", "algorithm=plain"]


def test_another_case_is_corrected_and_warned_about(registry):
    with pytest.warns(ConfigWarning, match=r"algorithm\.style"):
        config = compose([*TOY, "algorithm.Style=bold"], registry=registry)
    assert config.algorithm.style == "bold"
    with pytest.warns(ConfigWarning, match=r"algorithm\.dial"):
        config = compose([*TOY, "algorithm.DIAL.level=2"], registry=registry)
    assert config.algorithm.dial.level == 2


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


def test_a_plugin_that_fails_to_translate_is_one_error(registry, refused):
    class Broken:
        @staticmethod
        @hookimpl
        def rlcore_translate_keys(layers, config):
            raise KeyError("look")

    registry.manager.register(Broken)
    named = ("rlcore_translate_keys", "KeyError: 'look'", "test_translation.py:")
    with refused(PluginError, *named, text=False):  # it names a line of this file
        compose(TOY, registry=registry)
