"""Checkpoint folders: the original's names, and refusals by key and file.

What OpenVLA shares with OpenVLA-OFT (round trips, shards, adapters) is in the latter's tests.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_model_openvla.policy import make
from rlcore_model_openvla.settings import OpenVLAConfig
from rlcore_model_openvla.spec import policy_spec
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.rng import RowKeys

pytestmark = pytest.mark.filterwarnings(  # checkpoints without our record of the settings
    "ignore:actor.model.center_crop=false:rlcore.config.warning.ConfigWarning"
)
ROWS = 3
KEYS = RowKeys(tuple((1, row) for row in range(ROWS)))
CHUNK = {"num_action_chunks": 2}
TINY = {"size": "tiny", "num_action_chunks": 1, "add_value_head": True, "critic_hidden": [16]}


def change_record(folder: Path, **settings) -> None:
    """Change our record of the settings in config.json."""
    content = json.loads((folder / "config.json").read_text())
    content["rlcore"]["model"] |= settings
    (folder / "config.json").write_text(json.dumps(content))


@pytest.fixture
def saved(build, tmp_path):
    """A policy of two actions a decision with fitted statistics, and its folder."""
    policy = build(**CHUNK)
    policy.fit_normalizer([fake_demonstration(fake_env(), 20)])
    policy.save_pretrained(tmp_path / "checkpoint")
    return policy, tmp_path / "checkpoint"


def test_a_checkpoint_as_others_publish_it(saved, build, refuse):
    """No record of ours; statistics of several data sets in config.json; the critic beside the
    network, as RLinf's trainer writes it. Such a model writes one action."""
    policy, folder = saved
    weights = load_file(folder / "model.safetensors")
    critic = load_file(folder / "rl_heads.safetensors")
    save_file(weights | critic, folder / "model.safetensors")
    (folder / "rl_heads.safetensors").unlink()
    found = json.loads((folder / "dataset_statistics.json").read_text())
    (folder / "dataset_statistics.json").unlink()
    content = json.loads((folder / "config.json").read_text())
    del content["rlcore"]
    bridge = {"action": {"q01": [0.0] * 7, "q99": [1.0] * 7, "mask": [True] * 7}}
    content["norm_stats"] = {"bridge_orig": bridge, **found}
    (folder / "config.json").write_text(json.dumps(content))
    other = build(model_path=str(folder), unnorm_key="fake")
    inputs = policy.prepare(fake_observation(fake_env(), ROWS))
    # the first of two actions does not depend on the second
    expected, got = policy.act(inputs, KEYS), other.act(inputs, KEYS)
    np.testing.assert_array_equal(got.actions, expected.actions[:, :1])
    torch.testing.assert_close(got.values, expected.values, atol=1e-5, rtol=0)
    refuse(folder, "unnorm_key", "'fak'", "bridge_orig, fake", unnorm_key="fak")
    refuse(folder, "unnorm_key", "bridge_orig, fake")
    refuse(folder, "4 entries", "7, 7 and 7", unnorm_key="bridge_orig")
    refuse(folder, "num_action_chunks", "1", unnorm_key="fake", **CHUNK)


# -- faults -------------------------------------------------------------------------------------


@pytest.fixture
def refuse(refused):
    """Check that a policy's spec is refused, so before any worker starts, and so is the policy."""

    def refuse(folder: Path, *words: object, error=CheckpointError, env=None, **settings) -> None:
        config = OpenVLAConfig(**{**TINY, "model_path": str(folder), **settings})
        env = env or fake_env(cameras=2)
        with refused(error, *words):
            policy_spec(config, env)
        with refused(error, *words, text=False):
            make(config, env_spec=env)

    return refuse


@pytest.mark.parametrize(
    ("key", "value", "trained"), [("num_action_chunks", 3, 2), ("num_images_in_input", 2, 1)]
)
def test_settings_that_it_was_not_trained_with_are_refused(saved, refuse, key, value, trained):
    _, folder = saved
    refuse(folder, key, trained, value, **{key: value})


def test_a_prompt_that_no_memory_holds_is_refused(saved, refuse):
    _, folder = saved
    change_record(folder, max_prompt_length=10**12)
    refuse(folder, "config.json", "max_prompt_length", max_prompt_length=None)


def test_settings_that_are_no_mapping_are_refused(saved, refuse):
    """Then nothing is known of how it was trained."""
    _, folder = saved
    whole = (folder / "config.json").read_text()
    (folder / "config.json").write_text("[]")
    refuse(folder, "config.json")
    content = json.loads(whole)
    content["rlcore"]["model"] = ["num_action_chunks"]
    (folder / "config.json").write_text(json.dumps(content))
    refuse(folder, "num_action_chunks", "1", **CHUNK)
