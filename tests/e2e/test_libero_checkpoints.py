"""Published checkpoints act in LIBERO: folders as OpenVLA-OFT, RLinf and openpi publish theirs for
it, made in small, and real LIBERO on stand-ins. What is loaded acts as what was published, by all
that it is said to read, and the env plays what it decides.

    pytest -n0 -m "long or not long" tests/e2e/test_libero_checkpoints.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcore.contracts.protocols import Observation, Policy
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import Episode

pytest.importorskip("rlcore_env_libero")
pytest.importorskip("rlcore_model_openvla_oft")
pytest.importorskip("rlcore_model_openpi")

from libero_cases import MILK, SOUP, needs_libero, small_config
from originals import PI0Pytorch, statistics, write_json, write_norm_stats, write_tokenizer
from rlcore_env_libero.env import make_env
from rlcore_model_openpi.policy import make as make_openpi
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES
from rlcore_model_openpi.spec import policy_spec as openpi_spec
from rlcore_model_openvla_oft.policy import make as make_oft
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec as oft_spec
from rlcore_prismatic.originals import to_original
from rlcore_simulation.env import SimulatedEnv
from safetensors.torch import load_file, save_file, save_model

pytestmark = needs_libero
KEYS = RowKeys(((1, 0), (1, 1)))
EPISODES = [Episode(0, 40), Episode(1, 41)]
BOUNDS = {"action": ([-0.4] * 6 + [0.0], [0.6] * 6 + [1.0]), "proprio": ([-4.0] * 8, [4.0] * 8)}


@pytest.fixture(scope="module")
def libero() -> Iterator[Callable[..., SimulatedEnv]]:
    """Envs of two tasks, one row each: `libero(**settings)`, made once each. They simulate in a
    process of their own, as a test before may have imported MuJoCo without its variables."""
    made: dict[str, SimulatedEnv] = {}

    def env_of(**settings: object) -> SimulatedEnv:
        name = repr(sorted(settings.items()))
        if name not in made:
            config = small_config(tasks=[SOUP, MILK], **settings)
            made[name] = make_env(config, num_envs=2, rank=0, world_size=1, num_processes=1)
        return made[name]

    yield env_of
    for env in made.values():
        env.close()


def plays(env: SimulatedEnv, policy: Policy, chunk: int) -> tuple[Observation, np.ndarray]:
    """One decision of it from two starts; returns what it saw, and its actions `[2, chunk, 7]`."""
    seen, _ = env.reset(options={"episodes": EPISODES})
    actions = decided(policy, seen)
    assert actions.shape == (2, chunk, 7) and np.isfinite(actions).all()
    result = env.chunk_step(actions)
    assert result.valid.shape == (2, chunk) and result.valid.all()
    moved = np.abs(result.observation["states"][:, :3] - seen["states"][:, :3]).max(axis=1)
    assert (moved > 1e-3).all()  # the hand, in metres
    return seen, actions


def decided(policy: Policy, seen: Observation) -> np.ndarray:
    return policy.act(policy.prepare(seen), KEYS, deterministic=True).actions


def reads(policy: Policy, seen: Observation, *, camera: str = "", state: bool = False) -> bool:
    """Whether other frames of a camera, or another state, change its decision: the actions, or what
    is random in them. (The likeliest tokens of random weights hardly ever change.)"""
    frames = dict(seen["cameras"])
    if camera:
        frames[camera] = 255 - frames[camera]
    states = seen["states"] + np.float32(0.5) if state else seen["states"]
    other = {**seen, "cameras": frames, "states": states}
    greedy = bool(policy.spec.evaluation_only)
    one, two = (policy.act(policy.prepare(o), KEYS, deterministic=greedy) for o in (seen, other))
    return not (
        np.array_equal(one.actions, two.actions) and torch.equal(one.logprobs, two.logprobs)
    )


# -- OpenVLA-OFT ----------------------------------------------------------------------------------


def publish(policy: Policy, folder: Path, key: str, *, proprio: bool) -> Path:
    """Its folder, without our record of the settings: weights in two shards, and the statistics of
    a data set of LIBERO, whose gripper is not scaled."""
    policy.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, index = sorted(weights), {}
    for number in (1, 2):
        file = f"model-{number:05d}-of-00002.safetensors"
        part = {name: weights[name] for name in names[number - 1 :: 2]}
        save_file(part, folder / file)
        index |= dict.fromkeys(part, file)
    content = {"metadata": {"total_size": 0}, "weight_map": index}
    write_json(folder / "model.safetensors.index.json", content)
    found = {}
    for part, (low, high) in BOUNDS.items():
        if part == "action" or proprio:
            ends = {"min": low, "max": high, "q01": low, "q99": high, "mean": low, "std": high}
            found[part] = {**ends, "mask": [True] * 6 + [False] * (len(low) == 7)}
    found.get("proprio", {}).pop("mask", None)  # as it is written: of actions alone
    write_json(folder / "dataset_statistics.json", {key: found})
    config = json.loads((folder / "config.json").read_text())
    del config["rlcore"]
    write_json(folder / "config.json", {**config, "norm_stats": {key: found}})
    return folder


@pytest.mark.long
def test_openvla_ofts_libero_spatial(libero, tmp_path):
    """Two images, a state of 8 entries, actions of the L1 head. `lora_adapter/` lies beside the
    weights that it is merged into, and is not added again."""
    env = libero(gripper="binary")
    key = "libero_spatial_no_noops"
    config = OpenVLAOFTConfig(
        size="tiny_published", num_action_chunks=8, num_images_in_input=2, center_crop=True,
        implement_version="official", use_proprio=True, proprio_dim=8, use_l1_regression=True,
        unnorm_key=key,
    )  # fmt: skip
    torch.manual_seed(0)
    original = make_oft(config, env_spec=env.spec)
    folder = publish(original, tmp_path / "libero-spatial", key, proprio=True)
    to_original(folder)
    for part in ("action_head", "proprio_projector"):
        (path,) = folder.glob(f"{part}--*.pt")
        state = torch.load(path, weights_only=True)
        path.unlink()
        state = {f"module.{name}": tensor for name, tensor in state.items()}
        torch.save(state, folder / f"{part}--150000_checkpoint.pt")
    (folder / "lora_adapter").mkdir()
    low = torch.ones(4, 64)
    name = "base_model.model.language_model.model.layers.0.self_attn.q_proj"
    adapters = {f"{name}.lora_A.weight": low, f"{name}.lora_B.weight": low.T.contiguous()}
    save_file(adapters, folder / "lora_adapter" / "adapter_model.safetensors")
    content = {"peft_type": "LORA", "r": 4, "lora_alpha": 4,
               "base_model_name_or_path": "openvla/openvla-7b"}  # fmt: skip
    write_json(folder / "lora_adapter" / "adapter_config.json", content)
    torch.manual_seed(1)
    config = replace(config, model_path=str(folder))
    assert oft_spec(config, env.spec).states == env.spec.states  # what it learned from
    policy = make_oft(config, env_spec=env.spec)
    seen, actions = plays(env, policy, 8)
    original.processor.scaling = policy.processor.scaling
    np.testing.assert_array_equal(actions, decided(original, seen))
    assert reads(policy, seen, camera="agentview") and reads(policy, seen, camera="wrist")
    assert reads(policy, seen, state=True)
    # un-normalised by hand: (x + 1) / 2 * (0.6 + 0.4) - 0.4, and the gripper as it is
    out = policy.act(policy.prepare(seen), KEYS, deterministic=True)
    x = out.replay["normalized_actions"].numpy()
    np.testing.assert_allclose(actions[..., :6], (x[..., :6] + 1) / 2 - 0.4, atol=1e-6)
    np.testing.assert_array_equal(actions[..., 6], x[..., 6])


@pytest.mark.long
@pytest.mark.parametrize("is_lora", [False, True])
def test_rlinfs_adapters_for_libero(libero, tmp_path, is_lora):
    """`adapter_model.safetensors` on a supervised model; one image, no state, tokens."""
    from peft import LoraConfig, get_peft_model
    from rlcore_prismatic.layout import LORA_TARGETS

    env = libero(gripper="binary", cameras=["agentview"])
    key = "libero_10_no_noops"
    config = OpenVLAOFTConfig(size="tiny_published", num_action_chunks=8, unnorm_key=key)
    torch.manual_seed(0)
    original = make_oft(config, env_spec=env.spec)
    base = publish(original, tmp_path / "base", key, proprio=False)
    how = LoraConfig(r=4, lora_alpha=4, target_modules=sorted(LORA_TARGETS))
    adapted = get_peft_model(original.actor.network.language_model, how)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    adapted.save_pretrained(tmp_path / "lora")
    stored = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    inside = "base_model.model."
    stored = {
        name.replace(inside, f"{inside}language_model.", 1): tensor
        for name, tensor in stored.items()
    }
    save_file(stored, tmp_path / "lora" / "adapter_model.safetensors")
    torch.manual_seed(1)
    config = replace(
        config, model_path=str(base), lora_path=str(tmp_path / "lora"), is_lora=is_lora, lora_rank=4
    )
    oft_spec(config, env.spec)
    policy = make_oft(config, env_spec=env.spec)
    seen, actions = plays(env, policy, 8)
    without = make_oft(replace(config, lora_path=None, is_lora=False), env_spec=env.spec)
    assert not np.array_equal(actions, decided(without, seen))
    original.processor.scaling = policy.processor.scaling
    np.testing.assert_allclose(actions, decided(original, seen), atol=1e-6)
    assert reads(policy, seen, camera="agentview") and not reads(policy, seen, state=True)
    # the 255 bins are of [-1, 1], which is -0.4 to 0.6 for all entries but the gripper
    assert actions[..., :6].min() >= -0.4 and actions[..., :6].max() <= 0.6


# -- openpi ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("name", "horizon"), [("pi0_libero", 50), ("pi05_libero", 10)])
def test_openpis_configs_for_libero(libero, tmp_path, name, horizon):
    """Statistics in `assets/physical-intelligence/libero`; the horizon is that of the config. π0
    reads the state, and its actions are relative to it; π0.5 has no use for it."""
    env = libero()
    pi05 = name.startswith("pi05")
    size = replace(SIZES["tiny_siglip"], pi05=pi05, action_horizon=horizon)
    torch.manual_seed(0)
    original = PI0Pytorch(size)
    save_model(original, str(tmp_path / "model.safetensors"))
    stats = statistics(env.spec)
    write_norm_stats(tmp_path / "assets" / "physical-intelligence" / "libero", stats)
    content = {"action_dim": 32, "action_horizon": horizon, "paligemma_variant": "gemma_2b",
               "action_expert_variant": "gemma_300m", "precision": "bfloat16"}  # fmt: skip
    write_json(tmp_path / "config.json", content)
    write_tokenizer(tmp_path, size, env.spec)
    config = OpenPIModelConfig(
        model_path=str(tmp_path),
        num_action_chunks=5,
        num_images_in_input=2,
        add_value_head=False,
        openpi=OpenPIConfig(config_name=name, size="tiny_siglip", num_steps=2),
    )
    openpi_spec(config, env.spec)
    policy = make_openpi(config, env_spec=env.spec)
    found = policy.actor.network.get_parameter("action_in_proj.weight")
    assert torch.equal(found, original.action_in_proj.weight)
    assert policy.processor.resolved.size.action_horizon == horizon
    seen, _ = plays(env, policy, 5)
    assert reads(policy, seen, camera="agentview") and reads(policy, seen, camera="wrist")
    assert reads(policy, seen, state=True) != pi05
