"""Read and write a policy's checkpoint folder; files.py lists its contents."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import torch
from rlcore_flow.actor import FlowActor
from rlcore_flow.head_shapes import heads_trained_with
from rlcore_flow.normalize import Normalizer, Stats
from rlcore_flow.stored import save_heads
from rlcore_flow.vision import SiglipTower

from rlcore.contracts.specs import EnvSpec
from rlcore_model_openpi.checkpoint import load_heads, load_network, save_network
from rlcore_model_openpi.data_configs import data_config
from rlcore_model_openpi.files import load_stats, range_stats
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.normalize import FILE_NAME, write_stats
from rlcore_model_openpi.processor import Processor
from rlcore_model_openpi.published import CONFIG_FILE, conventions
from rlcore_model_openpi.resolved import Resolved, trained_with
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import NetworkSize
from rlcore_model_openpi.tokenizer import fresh_tokenizer, load_tokenizer

_log = logging.getLogger(__name__)


def fresh_processor(resolved: Resolved, env_spec: EnvSpec) -> Processor:
    """Return the processor of a model from scratch.

    Until its statistics are fitted, they scale actions to the env's range and leave the state
    unchanged. Its tokenizer is trained on the env's instructions.
    """
    formula = resolved.action_formula
    normalizer = Normalizer(
        Stats.identity(env_spec.state_dim), range_stats(resolved, env_spec), formula, formula
    )
    return Processor(
        resolved, fresh_tokenizer(env_spec.all_instructions, resolved.size), normalizer
    )


def load_processor(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> Processor:
    """Load statistics and tokenizer of the checkpoint at `config.model_path`.

    Warns if the checkpoint's action horizon is taken and differs from config_name's.

    Raises:
        CheckpointError: a file is missing, damaged, or of another robot.
    """
    assert config.model_path is not None
    horizon = data_config(config.openpi.config_name).action_horizon
    if config.openpi.action_horizon is None and horizon != resolved.size.action_horizon:
        _log.warning(
            "%s says action_horizon %d, which is taken; that of config_name %s is %d",
            Path(config.model_path) / CONFIG_FILE,
            resolved.size.action_horizon,
            resolved.data.name,
            horizon,
        )
    tokenizer = load_tokenizer(Path(config.model_path), resolved.size)
    return Processor(resolved, tokenizer, load_stats(config, resolved, env_spec))


def unfilled_network(size: NetworkSize) -> PiNetwork:
    """Return a network on the meta device, for :func:`load_weights` to fill.

    Initialising billions of weights, just to overwrite them, would take minutes.
    """
    with torch.device("meta"):
        return PiNetwork(size)


def load_weights(folder: Path, actor: FlowActor[PiNetwork]) -> None:
    """Load network and heads. Heads that the folder lacks keep their initial weights (logged).

    Raises:
        CheckpointError: a file is missing, damaged, or does not fit.
    """
    load_network(actor.network, folder)
    tower = actor.network.vision_tower
    if isinstance(tower, SiglipTower):
        tower.fill_buffers()
    fresh = load_heads(actor, folder)
    if fresh:
        _log.info("%s has no %s: starting with fresh weights", folder, " and ".join(fresh))


def save(
    folder: Path, config: OpenPIModelConfig, actor: FlowActor[PiNetwork], processor: Processor
) -> None:
    """Write the checkpoint folder (see files.py), with low-rank adapters merged."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = processor.resolved
    save_network(actor.network, folder)
    save_heads(actor, folder)
    asset_id = config.openpi.asset_id or resolved.data.asset_id
    write_stats(folder / "assets" / asset_id / FILE_NAME, processor.normalizer)
    processor.tokenizer.save(folder)
    # The folder it was loaded from is not a property of the policy.
    settings = dataclasses.asdict(dataclasses.replace(config, model_path=None))
    content = {
        "model": settings,
        "size": dataclasses.asdict(resolved.size),
        "trained_with": trained_with(resolved),
        "heads_trained_with": heads_trained_with(
            config.openpi, has_critic=bool(config.add_value_head)
        ),
        "conventions": conventions(
            resolved.data.delta_mask,
            {"state": resolved.state_formula, "actions": resolved.action_formula},
        ),
    }
    (folder / CONFIG_FILE).write_text(json.dumps(content, indent=2) + "\n")
