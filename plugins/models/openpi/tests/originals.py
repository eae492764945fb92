"""π0 and π0.5 as openpi, RLinf and LeRobot build and store them, in small or on the meta device.

Names and shapes come from the classes of transformers that the originals are made of, put together
as in openpi's `gemma_pytorch.py` and `pi0_pytorch.py`; files are written with the library calls of
the originals: `safetensors.torch.save_model` (openpi's converter and trainer, LeRobot), `save_file`
in shards (RLinf's `convert_pt_to_hf`), `torch.save` (RLinf's FSDP strategy).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs
from rlcore_model_openpi.policy import OpenPIPolicy
from rlcore_model_openpi.sizes import NetworkSize
from rlcore_model_openpi.tokenizer import train_tokenizer
from safetensors.torch import save_file, save_model
from torch import Tensor, nn
from transformers import GemmaForCausalLM, PaliGemmaForConditionalGeneration
from transformers.models.auto import CONFIG_MAPPING

from rlcore.contracts.specs import EnvSpec

ASSET = "lerobot/metaworld_mt50"
FIELDS = ("mean", "std", "q01", "q99")
Stats = Mapping[str, Mapping[str, np.ndarray]]


class AdaptiveNorm(nn.Module):
    """What openpi's patch of transformers puts in the place of the expert's norms for π0.5."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)


class Tower(nn.Module):
    """The level that transformers 4.53, which openpi pins, has above the vision tower."""

    def __init__(self, vision_model: nn.Module) -> None:
        super().__init__()
        self.vision_model = vision_model


class PaliGemmaWithExpert(nn.Module):
    """openpi's class of that name: its parameters."""

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        both = {
            "num_attention_heads": size.heads,
            "head_dim": size.head_dim,
            "num_hidden_layers": size.depth,
            "num_key_value_heads": size.kv_heads,
            "vocab_size": size.vocab,
        }
        config = CONFIG_MAPPING["paligemma"]()
        config.image_token_index = size.vocab
        text = {"hidden_size": size.vlm_width, "intermediate_size": size.vlm_mlp, **both}
        vision = {
            "hidden_size": size.vision_width,
            "intermediate_size": size.vision_mlp,
            "num_hidden_layers": size.vision_depth,
            "num_attention_heads": size.vision_heads,
            "image_size": size.image_size,
            "patch_size": size.patch_size,
            "projection_dim": size.vlm_width,
        }
        for part, values in ((config.text_config, text), (config.vision_config, vision)):
            for name, value in values.items():
                setattr(part, name, value)
        config.vision_config.vision_use_head = False
        self.paligemma = PaliGemmaForConditionalGeneration(config)
        self.paligemma.model.vision_tower = Tower(self.paligemma.model.vision_tower)
        self.paligemma.lm_head.weight = self.paligemma.model.language_model.embed_tokens.weight
        self.gemma_expert = GemmaForCausalLM(
            CONFIG_MAPPING["gemma"](
                hidden_size=size.expert_width, intermediate_size=size.expert_mlp, **both
            )
        )
        expert = self.gemma_expert.model
        expert.embed_tokens = None
        # the patched classes keep it apart
        head = torch.randn(size.vocab, size.expert_width)
        self.gemma_expert.lm_head.weight = nn.Parameter(head)
        if size.pi05:
            expert.norm = AdaptiveNorm(size.expert_width)
            for layer in expert.layers:
                layer.input_layernorm = AdaptiveNorm(size.expert_width)
                layer.post_attention_layernorm = AdaptiveNorm(size.expert_width)


class PI0Pytorch(nn.Module):
    """openpi's class of that name: its parameters."""

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        self.paligemma_with_expert = PaliGemmaWithExpert(size)
        width = size.expert_width
        self.action_in_proj = nn.Linear(size.action_dim, width)
        self.action_out_proj = nn.Linear(width, size.action_dim)
        if size.pi05:
            self.time_mlp_in = nn.Linear(width, width)
            self.time_mlp_out = nn.Linear(width, width)
        else:
            self.state_proj = nn.Linear(size.action_dim, width)
            self.action_time_mlp_in = nn.Linear(2 * width, width)
            self.action_time_mlp_out = nn.Linear(width, width)


class LeRobotPolicy(nn.Module):
    """LeRobot's policy around the same network."""

    def __init__(self, network: PI0Pytorch) -> None:
        super().__init__()
        self.model = network


def assert_holds(policy: OpenPIPolicy, original: PI0Pytorch) -> None:
    """The policy's network has the weights of the original, all of them, bit for bit."""
    theirs = {name: t for name, t in original.state_dict().items() if "lm_head" not in name}
    ours = dict(policy.actor.network.named_parameters())
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def statistics(env: EnvSpec, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Statistics as of a data set, float32 like LeRobot's: those of "state" and "actions"."""
    rng = np.random.default_rng(seed)
    sizes = {"state": env.state_dim, "actions": env.action_dim}
    return {
        name: {
            "mean": rng.normal(size=size).astype(np.float32),
            "std": rng.uniform(0.5, 1.5, size).astype(np.float32),
            "q01": rng.uniform(-2, -1, size).astype(np.float32),
            "q99": rng.uniform(1, 2, size).astype(np.float32),
        }
        for name, size in sizes.items()
    }


# -- openpi ------------------------------------------------------------------------------------


def write_openpi(folder: Path, model: PI0Pytorch, size: NetworkSize, env: EnvSpec) -> None:
    """As `convert_jax_model_to_pytorch.py` leaves it, with the tokenizer beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, str(folder / "model.safetensors"))
    write_norm_stats(folder / "assets" / ASSET, statistics(env))
    config = {
        "action_dim": size.action_dim,
        "action_horizon": size.action_horizon,
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
        "precision": "bfloat16",
    }
    write_json(folder / "config.json", config)
    write_tokenizer(folder, size, env)


def write_norm_stats(folder: Path, stats: Stats) -> None:
    """`norm_stats.json` as openpi's `normalize.save` writes it."""
    content = {
        name: {field: values[field].tolist() for field in FIELDS} for name, values in stats.items()
    }
    folder.mkdir(parents=True)
    write_json(folder / "norm_stats.json", {"norm_stats": content})


def write_tokenizer(folder: Path, size: NetworkSize, env: EnvSpec) -> None:
    """A small tokenizer under the name of PaliGemma's."""
    model = train_tokenizer(env.all_instructions, size.vocab)
    (folder / "paligemma_tokenizer.model").write_bytes(model)


def write_json(path: Path, content: object) -> None:
    """Write `content`."""
    path.write_text(json.dumps(content, indent=2))


# -- RLinf -------------------------------------------------------------------------------------


def write_shards(folder: Path, state: Mapping[str, Tensor], most: int) -> list[str]:
    """As `save_state_dict_sharded_safetensors`: by name, at most `most` bytes each. Returns the
    files."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in sorted(state.items()):
        held = sum(t.numel() * t.element_size() for t in shards[-1].values())
        if shards[-1] and held + tensor.numel() * tensor.element_size() > most:
            shards.append({})
        shards[-1][name] = tensor.detach().clone().contiguous()
    files = [f"model-{n:05d}-of-{len(shards):05d}.safetensors" for n in range(1, len(shards) + 1)]
    for file, shard in zip(files, shards, strict=True):
        save_file(shard, folder / file, metadata={"format": "pt"})
    weight_map = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
    total = sum(t.numel() * t.element_size() for shard in shards for t in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return files


# -- LeRobot -----------------------------------------------------------------------------------

_SHORT = {"state": "observation.state", "actions": "action"}


def lerobot_config(size: NetworkSize, env: EnvSpec, **changes: Any) -> dict[str, Any]:
    """`config.json` of a π0 or π0.5 policy, as `PreTrainedConfig._save_pretrained` writes it, less
    the settings of the training."""
    mode = "QUANTILES" if size.pi05 else "MEAN_STD"
    images = {
        f"observation.images.{name}": {"type": "VISUAL", "shape": [3, 224, 224]}
        for name in [f"image{i}" for i in range(len(env.cameras))] + ["empty_camera_0"]
    }
    return {
        "type": "pi05" if size.pi05 else "pi0",
        "n_obs_steps": 1,
        "input_features": {
            **images,
            "observation.state": {"type": "STATE", "shape": [env.state_dim]},
        },
        "output_features": {"action": {"type": "ACTION", "shape": [env.action_dim]}},
        "use_peft": False,
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
        "dtype": "float32",
        "chunk_size": size.action_horizon,
        "n_action_steps": size.action_horizon,
        "max_state_dim": size.action_dim,
        "max_action_dim": size.action_dim,
        "num_inference_steps": 10,
        "min_period": 0.004,
        "max_period": 4.0,
        "use_relative_actions": False,
        "relative_exclude_joints": ["gripper"],
        "action_feature_names": None,
        "rtc_config": None,
        "image_resolution": [size.image_size, size.image_size],
        "empty_cameras": 1,
        "normalization_mapping": {"VISUAL": "IDENTITY", "STATE": mode, "ACTION": mode},
        "tokenizer_max_length": size.max_token_len,
        **changes,
    }


def write_lerobot(folder: Path, model: PI0Pytorch, config: Mapping[str, Any], stats: Stats) -> None:
    """As `lerobot-train` leaves `pretrained_model/` since 0.4, without the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(LeRobotPolicy(model), str(folder / "model.safetensors"))
    write_json(folder / "config.json", config)
    names = ("policy_preprocessor", "policy_postprocessor")
    for name, steps in zip(names, lerobot_steps(config), strict=True):
        for number, step in enumerate(steps):
            if stats and step["registry_name"].endswith("normalizer_processor"):
                file = f"{name}_step_{number}_{step['registry_name']}.safetensors"
                save_file(
                    {
                        f"{_SHORT[feature]}.{field}": torch.from_numpy(value)
                        for feature, values in stats.items()
                        for field, value in values.items()
                    },
                    folder / file,
                )
                step["state_file"] = file
        write_json(folder / f"{name}.json", {"name": name, "steps": steps})


def lerobot_steps(config: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Steps before and after the network, in the order of `make_pi05_pre_post_processors`."""
    features = {**config["input_features"], **config["output_features"]}
    norm_map = config["normalization_mapping"]
    scale = {"eps": 1e-08, "features": features, "norm_map": norm_map}
    relative = {
        "enabled": config["use_relative_actions"],
        "exclude_joints": config["relative_exclude_joints"],
        "action_names": config["action_feature_names"],
    }
    tokenizer = {
        "max_length": config["tokenizer_max_length"],
        "task_key": "task",
        "padding_side": "right",
        "padding": "max_length",
        "truncation": True,
        "tokenizer_name": "google/paligemma-3b-pt-224",
    }
    prompt = "pi05_prepare_state_tokenizer_processor_step"
    before = {
        "rename_observations_processor": {"rename_map": {}},
        "to_batch_processor": {},
        "relative_actions_processor": relative,
        "normalizer_processor": scale,
        prompt if config["type"] == "pi05" else "pi0_new_line_processor": {},
        "tokenizer_processor": tokenizer,
        "device_processor": {"device": "cuda", "float_dtype": None},
    }
    outputs = {**scale, "features": config["output_features"]}
    after = {
        "unnormalizer_processor": outputs,
        "absolute_actions_processor": {"enabled": config["use_relative_actions"]},
        "device_processor": {"device": "cpu", "float_dtype": None},
    }
    return tuple(  # type: ignore[return-value]
        [{"registry_name": name, "config": settings} for name, settings in part.items()]
        for part in (before, after)
    )


def write_lerobot_before_04(
    folder: Path, model: PI0Pytorch, config: Mapping[str, Any], stats: Stats
) -> None:
    """As LeRobot 0.3 wrote it: statistics among the weights, and PaliGemma's levels of transformers
    before 4.52."""
    folder.mkdir(parents=True, exist_ok=True)
    within = "model.paligemma_with_expert.paligemma."
    state = {}
    for name, tensor in LeRobotPolicy(model).state_dict().items():
        if name == f"{within}model.language_model.embed_tokens.weight":
            continue
        name = name.replace(f"{within}lm_head.", f"{within}language_model.lm_head.")
        name = name.replace(f"{within}model.language_model.", f"{within}language_model.model.")
        state[name.replace(f"{within}model.", within)] = tensor.clone()
    buffers = {
        "normalize_inputs.buffer_observation_state": "state",
        "normalize_targets.buffer_action": "actions",
        "unnormalize_outputs.buffer_action": "actions",
    }
    for buffer, name in buffers.items():
        for field in ("mean", "std"):
            state[f"{buffer}.{field}"] = torch.from_numpy(stats[name][field].copy())
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    theirs = {
        name: value
        for name, value in config.items()
        if name
        not in (
            "paligemma_variant",
            "action_expert_variant",
            "image_resolution",
            "use_relative_actions",
            "relative_exclude_joints",
            "action_feature_names",
            "num_inference_steps",
            "min_period",
            "max_period",
            "rtc_config",
            "dtype",
        )
    }
    more = {
        "resize_imgs_with_padding": config["image_resolution"],
        "adapt_to_pi_aloha": False,
        "use_delta_joint_actions_aloha": False,
        "proj_width": 1024,
        "num_steps": 10,
        "attention_implementation": "eager",
        "use_cache": True,
    }
    write_json(folder / "config.json", {**theirs, **more})


@torch.no_grad()
def euler(
    network: PiNetwork, inputs: PrefixInputs, state: Tensor, noise: Tensor, num_steps: int
) -> Tensor:
    """Actions `[B, H, D]` from noise `[B, H, D]` by `num_steps` Euler steps from 1 to 0."""
    cache = network.encode_prefix(inputs, state)
    x = noise
    for step in range(num_steps):
        time = torch.full_like(x[:, 0, 0], 1.0 - step / num_steps)
        x = x - network.velocity(network.suffix_features(cache, state, x, time)) / num_steps
    return x
