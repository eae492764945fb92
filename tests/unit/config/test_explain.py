"""Help that is made from the schema."""

from __future__ import annotations

import pytest

from rlcore.config import schema_tree
from rlcore.config.catalog import Catalog
from rlcore.config.explain import explain, overview
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError


@pytest.fixture
def catalog(registry) -> Catalog:
    return Catalog(registry)


def test_every_key_is_listed_with_a_sentence(catalog):
    text = overview(catalog, RunConfig())
    for key in schema_tree.walk(RunConfig()):
        assert key.help, key.path
        assert f"{key.path}: " in text
    assert "env         toy" in text


def test_a_key_shows_type_default_choices_and_help(catalog, snapshot):
    text = explain(catalog, RunConfig(), "rollout.sync")
    assert text.startswith("  rollout.sync: str = auto [auto | broadcast | object_store]\n      ")
    assert text == snapshot


def test_a_section_shows_its_keys(catalog):
    lines = explain(catalog, RunConfig(), "runner.logger").splitlines()
    assert lines[0].startswith("runner.logger: ")
    assert "  runner.logger.logger_backends: list[str] = []" in lines


def test_keys_of_single_components_are_found_and_labelled(catalog):
    text = explain(catalog, RunConfig(), "algorithm.dial.level")
    assert "algorithm.dial.level: float = 0.5  (algorithm plain)" in text
    section = explain(catalog, RunConfig(), "actor.model")
    assert "  actor.model.hidden: int = 64 [at least 1]  (model toy)" in section
    assert "  actor.model.precision: str = fp32 [fp32 | bf16]" in section


def test_a_group_shows_its_options(catalog):
    assert explain(catalog, RunConfig(), "model") == "model=NAME, one of: toy"


def test_an_unknown_key_is_met_with_the_nearest(catalog, refused):
    with refused(ConfigError, "'runner.sed'", "'runner.seed'"):
        explain(catalog, RunConfig(), "runner.sed")
