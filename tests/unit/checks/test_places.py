"""Folders that no run can be at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from rlcore_testing.toy_settings import ToyEnvConfig

from rlcore.checks import places
from rlcore.checks.facts import gather_facts
from rlcore.config.compose import compose
from rlcore.config.schema.keys import key
from rlcore.config.warning import ConfigWarning

LONG = "/" + "x" * 5000  # longer than a name may be
TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("runner.logger.log_path=/dev/null/x", "runner.logger.log_path must be a folder, got"),
        ("collect.output=/dev/null", "collect.output must be a folder, got '/dev/null'"),
        (f"runner.logger.log_path={LONG}", "runner.logger.log_path must be a folder, got '/xxx"),
        (f"collect.path={LONG}", "collect.path must be a folder, got '/xxx"),
        (f"actor.model.model_path={LONG}", "actor.model.model_path must be a folder, got '/xxx"),
        (f"env.eval.video_cfg.video_base_dir={LONG}", "video_base_dir must be a folder, got '/xxx"),
        *(
            (f"runner.logger.experiment_name={name}", "must be a name or a path below")
            for name in ("''", "../elsewhere", "/etc/run", "a/../../b", "'a\nb'")
        ),
        ("actor.model.model_path=/no/where", "must be an existing folder, got '/no/where'"),
    ],
)
def test_places_that_no_run_can_be_at(registry, override, sentence):
    config = compose([*TOY, override], registry=registry)
    (said,) = places.folder_faults(config)
    assert sentence in said


def test_the_name_of_a_model_that_is_not_here(registry, elsewhere):
    """The run is planned as without it, and the command that downloads it is a finding; a path
    that is gone is a wrong setting."""
    asked = ["actor.model.model_path=openvla/openvla-7b", "actor.model.lora_path=me/adapters"]
    config = compose([*TOY, *asked], registry=registry)
    assert list(places.folder_faults(config)) == []
    base, adapters = places.findings(config)
    assert base["name"] == "actor.model.model_path" and base["status"] == "missing"
    assert base["fix"] == "hf download openvla/openvla-7b --local-dir openvla-7b"
    assert "null starts from random weights" in base["detail"]
    assert adapters["fix"] == "hf download me/adapters --local-dir adapters"
    planned = gather_facts(config, registry)
    assert planned.policy is not None and config.actor.model.model_path == "openvla/openvla-7b"
    for gone in ("../a/b", "/no/where", "nowhere"):
        config = compose([*TOY, f"actor.model.model_path={gone}"], registry=registry)
        (said,) = places.folder_faults(config)
        assert "must be an existing folder" in said and not [*places.findings(config)]
    (elsewhere / "adapters").mkdir()
    for value in ("null", str(elsewhere)):
        with pytest.warns(ConfigWarning, match="me/adapters"):
            config = compose([*TOY, f"actor.model.model_path={value}", asked[1]], registry=registry)
        assert not [*places.findings(config)]
        assert config.actor.model.lora_path == str(elsewhere / "adapters")


@dataclass
class ShelfConfig(ToyEnvConfig):
    """An env with folders of its own."""

    models: str | None = key("models to load", place="read")
    cache: str | None = key("folder to write to", place="written")
    shown: str | None = key("data to learn from", place="data")
    file: str | None = key("any path", place="path")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": "/no/where"}, "env.train.models must be an existing folder, got '/no/where'"),
        ({"cache": "/dev/null/x"}, "env.train.cache must be a folder, got '/dev/null/x'"),
        ({"shown": "/no/where"}, None),  # who reads it says so, and what is beside it
        ({"file": "/no/where"}, None),
        ({}, None),
    ],
)
def test_a_key_of_a_plugin_says_what_is_done_with_its_folder(registry, settings, said):
    config = compose(TOY, registry=registry)
    shelf = ShelfConfig(env_type="toy", **settings)
    found = list(places.folder_faults(replace(config, env=replace(config.env, train=shelf))))
    assert len(found) == (said is not None)
    assert not found or found[0].startswith(said)
