"""Folders that a run can't use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

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
    ("key", "value"),
    [
        ("runner.logger.log_path", "/dev/null/x"),
        ("collect.output", "/dev/null"),
        ("runner.logger.log_path", LONG),
        ("collect.path", LONG),
        ("actor.model.model_path", LONG),
        ("env.eval.video_cfg.video_base_dir", LONG),
        ("runner.logger.experiment_name", "''"),
        ("runner.logger.experiment_name", "../elsewhere"),
        ("runner.logger.experiment_name", "/etc/run"),
        ("runner.logger.experiment_name", "a/../../b"),
        ("runner.logger.experiment_name", "'a\nb'"),
        ("actor.model.model_path", "/no/where"),
    ],
    ids=lambda text: text[:40],
)
def test_a_folder_that_can_not_be_used_is_named(registry, snapshot, key, value):
    config = compose([*TOY, f"{key}={value}"], registry=registry)
    (fault,) = places.folder_faults(config)
    assert fault.startswith(key) and repr(value.strip("'"))[:20].rstrip("'") in fault
    assert fault == snapshot


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_folder_that_takes_no_files_is_no_matter_of_space(registry):
    """Root may write everywhere, and /proc has no room and no files of others."""
    config = compose([*TOY, "runner.logger.log_path=/proc/x"], registry=registry)
    (fault,) = places.folder_faults(config)
    assert fault.startswith("runner.logger.log_path ")
    assert "can't write to /proc/x: permission denied" in fault


def test_a_file_system_that_tells_no_size_takes_files(registry, tmp_path, monkeypatch):
    """As a tmpfs without a limit, a ramfs, and a program's own (FUSE)."""
    told = os.statvfs(tmp_path)
    sizes = list(told)
    sizes[2] = 0  # f_blocks
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(sizes))
    config = compose([*TOY, f"runner.logger.log_path={tmp_path}/logs"], registry=registry)
    assert list(places.folder_faults(config)) == []


def test_the_name_of_a_model_that_is_not_here(registry, elsewhere):
    """It is planned without it, and the command that downloads it is a finding; a missing path is a
    wrong setting."""
    asked = ["actor.model.model_path=openvla/openvla-7b", "actor.model.lora_path=me/adapters"]
    config = compose([*TOY, *asked], registry=registry)
    assert list(places.folder_faults(config)) == []
    base, adapters = places.findings(config)
    assert base["name"] == "actor.model.model_path" and base["status"] == "missing"
    assert base["fix"] == "hf download openvla/openvla-7b --local-dir openvla-7b"
    assert "null" in base["detail"]
    assert adapters["fix"] == "hf download me/adapters --local-dir adapters"
    planned = gather_facts(config, registry)
    assert planned.policy is not None and config.actor.model.model_path == "openvla/openvla-7b"
    for gone in ("../a/b", "/no/where", "nowhere"):
        config = compose([*TOY, f"actor.model.model_path={gone}"], registry=registry)
        (fault,) = places.folder_faults(config)
        assert f"{gone}'" in fault and not [*places.findings(config)]
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
    ("settings", "key"),
    [
        ({"models": "/no/where"}, "env.train.models"),
        ({"cache": "/dev/null/x"}, "env.train.cache"),
        ({"shown": "/no/where"}, None),  # its reader names it, and the files beside it
        ({"file": "/no/where"}, None),
        ({}, None),
    ],
)
def test_a_key_of_a_plugin_declares_the_use_of_its_folder(registry, snapshot, settings, key):
    config = compose(TOY, registry=registry)
    shelf = ShelfConfig(env_type="toy", **settings)
    faults = list(places.folder_faults(replace(config, env=replace(config.env, train=shelf))))
    assert [fault.split()[0] for fault in faults] == ([] if key is None else [key])
    assert faults == snapshot
