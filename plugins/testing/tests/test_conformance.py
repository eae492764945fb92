"""The toy env, the toy model and core's own backend pass the checks that authors of plugins run."""

from __future__ import annotations

from rlcore_testing import BackendConformance, EnvConformance, PolicyConformance, check
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.contracts.errors import ConfigError


class TestToyEnv(EnvConformance):
    name = "toy"
    settings = {"max_episode_steps": 20}


class TestToyModel(PolicyConformance):
    name = "toy"
    settings = {"add_value_head": True}
    env_spec = env_spec(ToyEnvConfig())


class TestToyModelWithAValuePerAction(PolicyConformance):
    name = "toy"
    settings = {"add_value_head": True, "value_type": "action_level", "num_action_chunks": 3}
    env_spec = env_spec(ToyEnvConfig())


class TestToyModelWithoutACritic(PolicyConformance):
    name = "toy"
    env_spec = env_spec(ToyEnvConfig())


class TestLocalBackend(BackendConformance):
    name = "local"


def test_the_function_gives_findings_instead_of_failures():
    assert check("env", "toy", max_episode_steps=20) == []


def test_unknown_settings_of_a_test_class_are_refused(refused):
    """A slip in a test class is the author's, not a finding."""
    suite = type("Suite", (EnvConformance,), {"name": "toy", "settings": {"max_steps": 3}})
    with refused(ConfigError, "max_steps"):
        suite().config()


def test_a_model_that_nobody_asked_for_a_critic_has_none():
    """null means that the algorithm decides, and a check has none."""
    model = type("Suite", (PolicyConformance,), {"name": "toy"})()
    assert model.config().add_value_head is False
    assert model.config(add_value_head=True).add_value_head is True
    assert TestToyModel().config().add_value_head is True
