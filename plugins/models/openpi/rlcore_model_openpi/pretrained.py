"""A policy's checkpoint folder: everything a load needs, in openpi's layout where it has one.

    model.safetensors                     network, under openpi's names
    rl_heads.safetensors                  critic and noise head, where there are any
    assets/<asset_id>/norm_stats.json     normalisation statistics
    paligemma_tokenizer.model             tokenizer of the prompt
    config.json                           settings and network size it was written with

Folders without `config.json` (published openpi checkpoints) load as well.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

from rlcore.errors import CheckpointError
from rlcore.specs import EnvSpec
from rlcore_model_openpi.checkpoint import load_heads, load_network, save_heads, save_network
from rlcore_model_openpi.network.actor import FlowActor
from rlcore_model_openpi.normalize import (
    FILE_NAME,
    Normalizer,
    find_stats,
    read_stats,
    write_stats,
)
from rlcore_model_openpi.processor import Processor
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.spec import KEY, Resolved
from rlcore_model_openpi.tokenizer import PromptTokenizer, find_tokenizer, train_tokenizer

CONFIG_FILE = "config.json"

_log = logging.getLogger(__name__)


def fresh_processor(resolved: Resolved, env_spec: EnvSpec) -> Processor:
    """For a model that starts from nothing: statistics that change nothing, and a tokenizer
    trained on the env's sentences."""
    size = resolved.size
    model = train_tokenizer(env_spec.descriptions, size.vocab)
    normalizer = Normalizer.identity(
        env_spec.state_dim, env_spec.action_dim, quantile=resolved.data.pi05
    )
    return Processor(
        resolved, PromptTokenizer(model, size.max_token_len, size.vocab), normalizer
    )


def load_processor(
    folder: Path, config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec
) -> Processor:
    """Statistics and tokenizer of a checkpoint.

    Raises:
        CheckpointError: no such folder, one of another network, or a file that is missing,
            damaged, or made for another robot.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    _check_written_size(folder, resolved)
    size, asset_id = resolved.size, config.openpi.asset_id
    tokenizer = PromptTokenizer(find_tokenizer(folder), size.max_token_len, size.vocab)
    stats = find_stats(
        folder, asset_id or resolved.data.asset_id, strict=asset_id is not None
    )
    normalizer = read_stats(
        stats,
        quantile=resolved.data.pi05,
        state_dim=env_spec.state_dim,
        action_dim=env_spec.action_dim,
    )
    return Processor(resolved, tokenizer, normalizer)


def load_weights(folder: Path, actor: FlowActor) -> None:
    """Fill network and heads. Heads that the folder does not hold stay fresh, and it is said.

    Raises:
        CheckpointError: a file that is missing, damaged, or does not fit.
    """
    load_network(actor.network, folder)
    fresh = load_heads(actor, folder)
    if fresh:
        _log.info("%s holds no %s: starting from fresh weights", folder, " and ".join(fresh))


def save(
    folder: Path, config: OpenPIModelConfig, actor: FlowActor, processor: Processor
) -> None:
    """Write the whole folder (see the module's head). Low-rank adapters are merged."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = processor.resolved
    save_network(actor.network, folder)
    save_heads(actor, folder)
    asset_id = config.openpi.asset_id or resolved.data.asset_id
    write_stats(folder / "assets" / asset_id / FILE_NAME, processor.normalizer)
    processor.tokenizer.save(folder)
    # Where it was loaded from is no property of it.
    settings = dataclasses.asdict(dataclasses.replace(config, model_path=None))
    content = {"model": settings, "size": dataclasses.asdict(resolved.size)}
    (folder / CONFIG_FILE).write_text(json.dumps(content, indent=2) + "\n")


def _check_written_size(folder: Path, resolved: Resolved) -> None:
    """Compare with the size in our `config.json`, if there is one."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        return
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    written = content.get("size") if isinstance(content, dict) else None
    if not isinstance(written, dict):
        return  # another system's config.json
    asked = dataclasses.asdict(resolved.size)
    different = [
        f"{name} {written.get(name)!r} (asked: {value!r})"
        for name, value in asked.items()
        if written.get(name) != value
    ]
    if different:
        raise CheckpointError(
            f"{folder} was written with another network: {', '.join(different)}",
            hint=f"use its settings: the keys of {KEY} stand in {path}",
        )
