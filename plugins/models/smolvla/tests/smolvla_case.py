"""What LeRobot's own SmolVLA is built on and is given, at size tiny_siglip."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from rlcore_model_smolvla.sizes import SIZES
from rlcore_model_smolvla.tokenizer import train_tokenizer
from rlcore_testing.conformance.fake_env import SENTENCES
from safetensors.torch import save_file

ROWS = 3
SIZE = SIZES["tiny_siglip"]
TASKS = [*SENTENCES, "a sentence that nobody has seen"]


def write_case(folder: Path) -> None:
    """Write the VLM's config and tokenizer, tasks and a batch, as lerobots_own.py reads them."""
    vlm = folder / "vlm"
    vlm.mkdir(parents=True)
    text = {
        "model_type": "llama",
        "hidden_size": SIZE.vlm_width,
        "intermediate_size": SIZE.vlm_mlp,
        "num_hidden_layers": SIZE.depth + 2,
        "num_attention_heads": SIZE.heads,
        "num_key_value_heads": SIZE.kv_heads,
        "head_dim": SIZE.head_dim,
        "vocab_size": SIZE.vocab,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100_000,  # LeRobot turns by its own
    }
    vision = {
        "model_type": "smolvlm_vision",
        "hidden_size": SIZE.vision_width,
        "intermediate_size": SIZE.vision_mlp,
        "num_hidden_layers": SIZE.vision_depth,
        "num_attention_heads": SIZE.vision_heads,
        "image_size": SIZE.image_size,
        "patch_size": SIZE.patch_size,
    }
    config = {
        "model_type": "smolvlm",
        "text_config": text,
        "vision_config": vision,
        "scale_factor": SIZE.shuffle,
        "tie_word_embeddings": False,
    }
    (vlm / "config.json").write_text(json.dumps(config))
    (vlm / "tokenizer.json").write_bytes(train_tokenizer(SENTENCES, SIZE.vocab))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    (vlm / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "tasks.json").write_text(json.dumps(TASKS))
    draw = torch.Generator().manual_seed(1)
    chunk = (ROWS, SIZE.action_horizon, SIZE.action_dim)
    batch = {
        f"observation.images.{name}": torch.randint(
            0, 256, (ROWS, 48, 64, 3), generator=draw, dtype=torch.uint8
        )
        for name in ("camera0", "other")
    }
    batch |= {
        "observation.state": torch.randn(ROWS, 4, generator=draw),
        "action": torch.randn(ROWS, SIZE.action_horizon, 4, generator=draw),
        "noise": torch.randn(chunk, generator=draw),
        "time": torch.rand(ROWS, generator=draw) * 0.998 + 0.001,
    }
    save_file(batch, folder / "batch.safetensors")
