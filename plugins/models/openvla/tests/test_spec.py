"""Settings: what they come to, which contradict, and what a dry run plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rlcore_model_openvla
import yaml
from rlcore_model_openvla.policy import make
from rlcore_model_openvla.settings import OpenVLAConfig
from rlcore_model_openvla.spec import policy_spec
from rlcore_testing.conformance.fake_env import fake_env

from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError

TINY = Path(rlcore_model_openvla.__file__).parent / "conf" / "model" / "openvla_tiny.yaml"


def test_published_size():
    """7 541 237 184 parameters (15 082 474 368 bytes of bf16 in the published index). The critic:
    4096*512+512 + 512*128+128 + 128 = 2 163 456."""
    bare = policy_spec(OpenVLAConfig(num_action_chunks=1), fake_env(action=7))
    assert bare.parameters == 7_541_237_184
    spec = policy_spec(OpenVLAConfig(num_action_chunks=1, add_value_head=True), fake_env(action=7))
    assert spec.parameters - bare.parameters == 2_163_456
    assert (spec.action_dim, spec.num_action_chunks, spec.action_horizon) == (7, 1, 1)
    # keys and values of 32 layers of 32 heads of 128, for 256 patches and 50 + 7 - 1 tokens
    assert spec.cache_size == 2 * 32 * (256 + 56) * 4096
    assert (spec.value_dim, spec.state_dim, spec.sft_objective) == (1, 0, "token_cross_entropy")
    lora = policy_spec(OpenVLAConfig(num_action_chunks=1, is_lora=True), fake_env(action=7))
    assert lora.trainable_parameters == pytest.approx(110e6, rel=0.02)


DRY_RUN = ("train", "env=metaworld_50", "algorithm=ppo", "--dry-run")
TINY_RUN = (*DRY_RUN, "model=openvla_tiny", "env.*.tasks=[reach-v3]")  # a short instruction


def test_a_dry_run_plans_the_published_size(capsys):
    lora = ("actor.model.is_lora=true", "actor.fsdp_config.gradient_checkpointing=true")
    assert main([*DRY_RUN, "model=openvla", *lora]) == 0
    assert "7,654,228,928 parameters in bf16" in capsys.readouterr().out


def test_a_dry_run_counts_reference_weights(capsys):
    """T b more with a KL to them: 0.4 M trained parameters of 4 bytes are about 1.5 MiB."""

    def planned(*overrides: str) -> float:
        assert main([*TINY_RUN, "cluster.inventory=1x24GB", *overrides]) == 0
        processes = re.findall(r"rollout\+actor .* ([\d.]+) MiB", capsys.readouterr().out)
        return float(processes[0])

    settings = yaml.safe_load(TINY.read_text()) | {"add_value_head": True}  # as PPO asks
    spec = policy_spec(OpenVLAConfig(**settings), fake_env())
    more = planned("algorithm.kl_beta=0.1") - planned()
    assert more == pytest.approx(4 * spec.trainable_parameters / 2**20, abs=0.03)


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("num_images_in_input", 2, "1..1"),
        ("action_dim", 7, "7 entries"),
        ("action_entries", [0, 1, 1, 2], "action_entries"),
        ("max_prompt_length", 5, "max_prompt_length"),
        ("size", "tinny", "tiny"),
    ],
)
def test_contradictions_are_refused(refused, key, value, word):
    config = OpenVLAConfig(**{"size": "tiny", key: value})
    with refused(ConfigError, "actor.model", word):
        make(config, env_spec=fake_env())
