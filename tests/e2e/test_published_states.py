"""The state of each data set that published checkpoints of π0 are of, and the env that gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from internals import compose

from rlcore.cli.main import main
from rlcore.contracts.specs import EnvSpec
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

pytest.importorskip("rlcore_model_openpi")

from originals import PI0Pytorch, write_json, write_norm_stats, write_tokenizer
from rlcore_model_openpi.data_configs import STATES
from rlcore_model_openpi.sizes import SIZES
from safetensors.torch import save_model

PLATE = "maniskill_put_on_plate_in_scene_25_main"
JOINTS = "env.*.robot_state=joints"


def spec_of(*words: str) -> EnvSpec:
    """Of env.train under these words of a command line."""
    env = compose(list(words), require=()).env.train
    component = load_plugins().get("env", env.env_type)
    return load_target(str(component.spec.spec))(env)


@pytest.mark.parametrize(
    ("asset", "distribution", "words"),
    [
        ("physical-intelligence/libero", "rlcore_env_libero", ["env=libero_10"]),
        ("lerobot/metaworld_mt50", "rlcore_env_metaworld", ["env=metaworld_50"]),
        (
            "physical-intelligence/maniskill",
            "rlcore_env_maniskill",
            [f"env={PLATE}", JOINTS],
        ),
        ("physical-intelligence/robotwin", "rlcore_env_robotwin", ["env=robotwin"]),
    ],
)
def test_the_env_gives_what_the_data_set_holds(
    asset: str, distribution: str, words: list[str]
) -> None:
    pytest.importorskip(distribution)
    assert spec_of(*words).states == STATES[asset]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A small π0 for ManiSkill, in a folder as openpi's trainer leaves it."""
    pytest.importorskip("rlcore_env_maniskill")
    size, env = SIZES["tiny_siglip"], spec_of(f"env={PLATE}")
    folder = tmp_path / "published"
    folder.mkdir()
    save_model(PI0Pytorch(size), str(folder / "model.safetensors"))
    ones = {
        name: {"mean": np.zeros(n), "std": np.ones(n), "q01": -np.ones(n), "q99": np.ones(n)}
        for name, n in (("state", 8), ("actions", 7))
    }
    write_norm_stats(folder / "assets" / "physical-intelligence" / "maniskill", ones)
    write_json(folder / "config.json", {"action_dim": size.action_dim})
    write_tokenizer(folder, size, env)
    return folder


@pytest.mark.long
def test_eight_other_numbers_are_refused(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Position, quaternion and opening of the hand are eight numbers too."""
    words = ["eval", f"env={PLATE}", "model=pi0", "--dry-run"]
    words += ["actor.model.openpi.config_name=pi0_maniskill", "actor.model.openpi.size=tiny_siglip"]
    words += [f"actor.model.model_path={published}"]
    assert main(words) != 0
    error = capsys.readouterr().err
    assert "states of env.train must be those" in error and "'joint_position', 'size': 8" in error
    assert main([*words, JOINTS]) == 0, capsys.readouterr().err
