"""Folders as LeRobot writes them: what is taken from them, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rlcore_model_smolvla.layout import file_name, network_keys, network_shapes
from rlcore_model_smolvla.network import SmolVLANetwork
from rlcore_model_smolvla.policy import make
from rlcore_model_smolvla.resolved import resolve
from rlcore_model_smolvla.settings import SmolVLAConfig, SmolVLAModelConfig
from rlcore_model_smolvla.sizes import SIZES
from rlcore_model_smolvla.spec import policy_spec
from rlcore_weights.headers import count
from safetensors.torch import load_file, save_file
from smolvla_case import SIZE

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec

VERSIONS = Path(__file__).parent / "versions"
GOLDEN = Path(__file__).parent / "golden" / "policy"
Edit = Callable[[Path, Mapping[str, Any]], None]


@pytest.fixture
def env_spec(other_env: Callable[..., EnvSpec]) -> EnvSpec:
    return other_env(cameras=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that LeRobot saved, whose size stands for the published one."""
    monkeypatch.setitem(SIZES, "smolvla", SIZE)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return Path(shutil.copytree(GOLDEN, tmp_path / "policy"))


def settings(folder: Path, images: int = 2, **keys: Any) -> SmolVLAModelConfig:
    return SmolVLAModelConfig(
        model_path=str(folder),
        num_action_chunks=3,
        num_images_in_input=images,
        add_value_head=True,
        smolvla=SmolVLAConfig(num_steps=2, **keys),
    )


def edit_step(path: Path, name: str, **entries: Any) -> None:
    """Change settings of a processor step."""
    content = json.loads(path.read_text())
    (step,) = [step for step in content["steps"] if step["registry_name"] == name]
    step["config"] |= entries
    path.write_text(json.dumps(content))


def test_names_and_shapes_are_the_networks() -> None:
    for name, size in SIZES.items():
        with torch.device("meta"):
            network = SmolVLANetwork(size)
        parameters = {name: tuple(p.shape) for name, p in network.named_parameters()}
        assert network_shapes(size) == parameters, name
        assert network_keys(map(file_name, parameters)) == {
            parameter: file_name(parameter) for parameter in parameters
        }


def test_the_published_network_of_full_size() -> None:
    """By hand: a layer of the text model has 2 x 960^2 + 2 x 320 x 960 + 3 x 960 x 2560 + 2 x 960
    = 9,832,320 weights; the expert's have 2 x 720 x 960 + 3 x 720 x 2048 + 2 x 720 and keys and
    values from 720 (8 layers) or 320 (8); and so on. LeRobot's file has 500 tensors: these and the
    `lm_head`, 49,280 x 960, which makes 450 M."""
    shapes = network_shapes(SIZES["smolvla"])
    text = 16 * 9_832_320 + 960 + 49_280 * 960
    vision_layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    vision = 12 * vision_layer + 3 * 16 * 16 * 768 + 768 + 1024 * 768 + 2 * 768
    expert = 16 * (2 * 720 * 960 + 3 * 720 * 2048 + 2 * 720) + 720
    expert += 8 * 2 * 320 * 720 + 8 * 2 * 320 * 320
    ends = (32 + 1) * 960 + (32 + 1) * 720 + (720 + 1) * 32 + (1440 + 1) * 720 + (720 + 1) * 720
    assert count(shapes) == text + vision + 768 * 16 * 960 + expert + ends
    assert len(shapes) == 499
    assert 450e6 < count(shapes) + 49_280 * 960 < 451e6


def test_a_folder_gives_the_sizes(folder: Path, env_spec: EnvSpec) -> None:
    size = resolve(settings(folder), env_spec).size
    assert (size.action_horizon, size.max_token_len, size.image_size) == (6, 24, 64)
    assert size == SIZE


def test_a_set_key_must_agree(folder: Path, refuse: Callable[..., Any], env_spec: EnvSpec) -> None:
    refuse(settings(folder, action_horizon=5), "action_horizon", "6", env=env_spec)
    refuse(settings(folder, images=1), "num_images_in_input", "2", env=env_spec)
    refuse(settings(folder, size="huge"), "size", "smolvla", kind=ConfigError, env=env_spec)


def test_a_base_model_fits_any_number_of_cameras(
    folder: Path, edit: Edit, env_spec: EnvSpec
) -> None:
    """As `lerobot/smolvla_base`: cameras camera1 to camera3, no statistics."""
    config = json.loads((folder / "config.json").read_text())
    features = config["input_features"]
    cameras = {f"observation.images.camera{n}": {"type": "VISUAL", "shape": [3, 256, 256]}
               for n in (1, 2, 3)}  # fmt: skip
    state = {"observation.state": features["observation.state"]}
    edit(folder / "config.json", {"input_features": state | cameras})
    for file in ("policy_preprocessor.json", "policy_postprocessor.json"):
        content = json.loads((folder / file).read_text())
        for step in content["steps"]:
            step.pop("state_file", None)
        (folder / file).write_text(json.dumps(content))
    for images in (1, 2):
        policy = make(settings(folder, images=images), env_spec=env_spec)
        values = np.linspace(-2, 2, 4, dtype=np.float32)[None]
        normalizer = policy.processor.normalizer
        np.testing.assert_allclose(normalizer.normalize_state(values), values, rtol=1e-6)
        np.testing.assert_allclose(normalizer.unnormalize_actions(values), values, rtol=1e-6)


def test_fields_of_lerobot_06_are_read(folder: Path, edit: Edit, env_spec: EnvSpec) -> None:
    """Fields that 0.5 and 0.6 added to SmolVLAConfig and PreTrainedConfig, with their defaults, and
    those of the base model, whose layers and padding are written as 0."""
    added = {
        "fine_tune_vision_encoder": True,
        "vision_encoder_lr_multiplier": 0.1,
        "pretrained_revision": "main",
        "num_expert_layers": 0,
        "prefix_length": 241,
        "pad_language_to": "max_length",
        "empty_cameras": 1,
        "load_vlm_weights": True,
    }
    edit(folder / "config.json", added)
    edit_step(folder / "policy_preprocessor.json", "tokenizer_processor", padding="max_length")
    assert resolve(settings(folder), env_spec).size == SIZE


@pytest.mark.parametrize("version", ["0.4", "0.6"])
def test_every_field_of_a_version_is_read(
    folder: Path, edit: Edit, env_spec: EnvSpec, version: str
) -> None:
    """A whole `config.json`, as that version writes it for LIBERO's two cameras; see versions/."""
    content = json.loads((VERSIONS / f"{version}.json").read_text())
    size = SIZES["smolvla"]
    (folder / "config.json").write_text(json.dumps(content))
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        (folder / name).unlink()
        for file in folder.glob(f"{name[:-5]}_step_*"):
            file.unlink()
    edit(folder / "config.json", {"normalization_mapping": {}})  # without the files of statistics
    resolved = resolve(settings(folder), env_spec)
    assert resolved.size == replace(
        size,
        image_size=512,
        depth=16,
        expert_width=36,
        expert_mlp=256,
        self_attention_every=2,
        action_horizon=50,
        max_token_len=48,
    )


@pytest.mark.parametrize("version", ["0.4", "0.6"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_action_steps", 51),
        ("rtc_config", {"enabled": True, "execution_horizon": 10}),
        ("rtc_config", {"execution_horizon": 10}),
        ("use_peft", True),
        ("min_period", 1e-3),
        ("an_unknown_field", 1),
    ],
)
def test_a_field_with_an_effect_is_refused_in_every_version(
    folder: Path,
    edit: Edit,
    refuse: Callable[..., Any],
    env_spec: EnvSpec,
    version: str,
    field: str,
    value: Any,
) -> None:
    shutil.copyfile(VERSIONS / f"{version}.json", folder / "config.json")
    edit(folder / "config.json", {field: value})
    refuse(settings(folder), field, env=env_spec)


def test_chunking_that_is_switched_off_is_ignored(
    folder: Path, edit: Edit, env_spec: EnvSpec
) -> None:
    edit(folder / "config.json", {"rtc_config": {"enabled": False, "execution_horizon": 10}})
    assert resolve(settings(folder), env_spec).size == SIZE


def test_names_of_a_compiled_network(folder: Path, env_spec: EnvSpec) -> None:
    plain = make(settings(folder), env_spec=env_spec)
    stored = load_file(folder / "model.safetensors")
    renamed = {name.replace("model.", "model._orig_mod.", 1): x for name, x in stored.items()}
    save_file(renamed, folder / "model.safetensors")
    compiled = make(settings(folder), env_spec=env_spec)
    for name, parameter in compiled.actor.network.state_dict().items():
        assert torch.equal(parameter, plain.actor.network.state_dict()[name])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "act"),
        ("n_obs_steps", 2),
        ("add_image_special_tokens", True),
        ("adapt_to_pi_aloha", True),
        ("use_peft", True),
        ("max_period", 8.0),
        ("attention_mode", "flash"),
        ("num_expert_layers", 2),
        ("resize_imgs_with_padding", [64, 32]),
        ("normalization_mapping_of_mine", "MEAN_STD"),
        ("chunk_size", 0),
    ],
)
def test_settings_that_we_can_not_compute_are_refused(
    folder: Path, edit: Edit, refuse: Callable[..., Any], env_spec: EnvSpec, field: str, value: Any
) -> None:
    edit(folder / "config.json", {field: value})
    word = {"type": "act", "chunk_size": "action_horizon"}.get(field, field)
    refuse(settings(folder), word, env=env_spec)


def test_contradicting_steps_are_refused(
    folder: Path, refuse: Callable[..., Any], env_spec: EnvSpec
) -> None:
    before = folder / "policy_preprocessor.json"
    edit_step(before, "tokenizer_processor", max_length=12)
    refuse(settings(folder), "max_length", "12", "24", env=env_spec)
    edit_step(before, "tokenizer_processor", max_length=24, padding_side="left")
    refuse(settings(folder), "padding_side", "left", env=env_spec)
    edit_step(before, "tokenizer_processor", padding_side="right")
    edit_step(before, "rename_observations_processor", rename_map={"a": "b"})
    refuse(settings(folder), "rename_map", env=env_spec)


def test_two_normalizations_are_refused(
    folder: Path, edit: Edit, refuse: Callable[..., Any], env_spec: EnvSpec
) -> None:
    modes = {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "QUANTILES"}
    edit(folder / "config.json", {"normalization_mapping": modes})
    refuse(settings(folder), "ACTION", "QUANTILES", "MEAN_STD", env=env_spec)


def test_adapters_are_refused(folder: Path, refuse: Callable[..., Any], env_spec: EnvSpec) -> None:
    (folder / "adapter_config.json").write_text("{}")
    refuse(settings(folder), "adapter_config.json", "merge", env=env_spec)


def test_weights_of_another_size_are_refused(
    folder: Path, refuse: Callable[..., Any], env_spec: EnvSpec
) -> None:
    stored = load_file(folder / "model.safetensors")
    name = "model.vlm_with_expert.lm_expert.layers.1.self_attn.k_proj.weight"
    save_file({**stored, name: stored[name][:, :12].contiguous()}, folder / "model.safetensors")
    refuse(settings(folder), "lm_expert.layers.1.self_attn.k_proj.weight", env=env_spec)


def test_the_tokenizer_is_not_in_the_folder(
    folder: Path, refuse: Callable[..., Any], env_spec: EnvSpec
) -> None:
    """It is then taken from the hub's cache."""
    tokenizer = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").unlink()
    refuse(settings(folder), "tokenizer.json", "hf download", env=env_spec)
    name = "models--HuggingFaceTB--SmolVLM2-500M-Video-Instruct"
    revision = "0" * 40
    snapshot = folder.parent / "hub" / name / "snapshots" / revision
    snapshot.mkdir(parents=True)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(revision)
    (snapshot / "tokenizer.json").write_bytes(tokenizer)
    (snapshot / "config.json").write_text("{}")
    policy_spec(settings(folder), env_spec)


def test_an_env_with_more_entries_is_refused(
    folder: Path, refuse: Callable[..., Any], other_env: Callable[..., EnvSpec]
) -> None:
    refuse(settings(folder), "32", kind=ConfigError, env=other_env(cameras=2, state=40))
    refuse(settings(folder), "actions", "5", env=other_env(cameras=2, action=5))
