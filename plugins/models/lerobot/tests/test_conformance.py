"""The checks that rlcore has for every policy, for policies that the installed LeRobot builds."""

from __future__ import annotations

import pytest
from rlcore_testing import PolicyConformance
from rlcore_testing.conformance.fake_env import fake_env

pytest.importorskip("lerobot", reason="LeRobot is not installed here; see test_with_lerobot.py")

ACT = {"dim_model": 16, "n_heads": 2, "dim_feedforward": 16, "n_vae_encoder_layers": 1}
DIFFUSION = {
    "down_dims": [8, 16],
    "n_groups": 4,
    "diffusion_step_embed_dim": 8,
    "spatial_softmax_num_keypoints": 4,
    "num_inference_steps": 4,
}


class TestACT(PolicyConformance):
    name = "lerobot"
    settings = {"num_action_chunks": 3, "lerobot": {"type": "act", "config": ACT}}
    shake = 0.01
    test_decisions_depend_on_the_instruction = None  # ACT reads none


class TestDiffusion(PolicyConformance):
    name = "lerobot"
    settings = {
        "num_action_chunks": 4,
        "num_images_in_input": 2,
        "lerobot": {"type": "diffusion", "config": DIFFUSION},
    }
    env_spec = fake_env(cameras=2)
    shake = 0.01
    test_decisions_depend_on_the_instruction = None  # Diffusion reads none
