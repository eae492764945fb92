"""Names of extras come from the metadata of the installed rlcore."""

from __future__ import annotations

import pytest

from rlcore import extras
from rlcore.errors import PluginError
from rlcore.plugins import Registry

REQUIRES = [
    "numpy>=1.26",
    "rlcore-env-maniskill==0.1.0; extra == 'maniskill'",
    "rlcore-algo-ppo==0.1.0; extra == 'maniskill'",
    "rlcore-env-hut==0.1.0 ; extra == 'hut'",
    'rlcore-model-openvla==0.1.0; extra == "openvla"',
    'rlcore-model-openvla-oft==0.1.0; extra == "openvla-oft"',
    "rlcore-algo-ppo==0.1.0; extra == 'ppo'",
]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extras, "requires", lambda name: REQUIRES)
    extras.extras.cache_clear()
    yield
    extras.extras.cache_clear()


def test_extras_are_read_from_requirements(metadata):
    assert extras.extras() == {
        "maniskill": ("rlcore-env-maniskill", "rlcore-algo-ppo"),
        "hut": ("rlcore-env-hut",),
        "openvla": ("rlcore-model-openvla",),
        "openvla-oft": ("rlcore-model-openvla-oft",),
        "ppo": ("rlcore-algo-ppo",),
    }


@pytest.mark.parametrize(
    ("kind", "name", "extra"),
    [
        ("env", "maniskill", "maniskill"),
        ("env", "maniskill_put_on_plate", "maniskill"),
        ("env", "ManiSkill", "maniskill"),
        ("env", "maniskills", None),  # a slip of the pen is not an option of the plugin
        ("model", "openvla_oft", "openvla-oft"),  # the longer name wins over openvla
        ("model", "openvla", "openvla"),
        ("algorithm", "ppo", "ppo"),  # in two extras: the one that brings less
        ("model", "maniskill", None),  # of another kind
        ("tracker", "ppo", None),
    ],
)
def test_the_extra_that_ships_a_name(metadata, kind, name, extra):
    assert extras.extra_that_ships(kind, name, loaded=()) == extra


def test_the_message_is_a_command(metadata):
    registry = Registry.load(found=[], environ={})
    with pytest.raises(PluginError) as caught:
        registry.get("env", "maniskill")
    assert str(caught.value) == (
        "env 'maniskill' ships as an extra: pip install \"rlcore[maniskill]\""
    )


def test_an_unknown_name_hints_at_extras_of_its_kind(metadata):
    registry = Registry.load(found=[], environ={})
    with pytest.raises(PluginError, match="pip install") as caught:
        registry.get("model", "pi")
    assert caught.value.hint == ('not installed: pip install "rlcore[openvla]" (or openvla-oft)')


def test_an_installed_plugin_is_not_offered(metadata):
    assert extras.extra_that_ships("env", "hut_9", loaded={"rlcore-env-hut"}) is None
    assert extras.absent_extras("env", loaded={"rlcore-env-hut"}) == ["maniskill"]
