"""Check settings and checkpoint of a policy, and return the facts of the policy. No torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore_flow.facts import BLOCKS, cache_size, parameter_counts, unused_parameters
from rlcore_flow.head_shapes import policy_head_shapes
from rlcore_flow.settings import exploration_key

from rlcore.contracts.errors import run_checks
from rlcore.contracts.specs import EnvSpec, PolicySpec, gathered_parameters
from rlcore_model_smolvla.activations import LIBRARIES, activations
from rlcore_model_smolvla.layout import (
    LANGUAGE_MODEL,
    adapter_count,
    expert_shapes,
    network_shapes,
)
from rlcore_model_smolvla.resolved import Resolved, load_normalizer, resolve
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.weight_files import check_stored

if TYPE_CHECKING:
    from rlcore_model_smolvla.tokenizer import PromptTokenizer


def policy_spec(config: SmolVLAModelConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: a value out of its range, or settings that contradict each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    size = resolved.size
    settings = config.smolvla
    values = resolved.values
    heads = policy_head_shapes(settings, size, settings.critic_hidden, values)
    if config.model_path is not None:
        run_checks(
            partial(check_stored, Path(config.model_path), network_shapes(size), heads),
            partial(load_normalizer, resolved, env_spec),
        )
    tokenizer_of(config, resolved, env_spec).check(env_spec.all_instructions)
    total, trainable = parameter_counts(
        config,
        settings,
        network=network_shapes(size),
        expert=expert_shapes(size),
        heads=heads,
        adapters=adapter_count(size, config.lora_rank),
    )
    tokens = size.prefix_len(len(resolved.cameras))
    return PolicySpec(
        name=config.model_type,
        num_images=len(resolved.cameras),
        state_dim=size.state_dim,
        action_dim=resolved.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=size.action_horizon,
        value_dim=values,
        sft_objective="flow_matching",
        parameters=total,
        trainable_parameters=trainable,
        gathered_parameters=gathered_parameters(network_shapes(size), BLOCKS),
        cache_size=cache_size(settings, values, size, tokens),
        activations=activations(config, resolved),
        sample_bytes=_decision_bytes(config, resolved),
        library_bytes=LIBRARIES if size.vision == "siglip" else 0,
        has_checkpointing=True,
        has_blocks=True,
        starts_from_noise=True,
        has_samples=True,
        feature_size=size.vlm_width,
        noise_shape=(size.action_horizon, size.action_dim),
        exploration_key=exploration_key(settings, "smolvla"),
        unused_parameters=unused_parameters(settings, values, LANGUAGE_MODEL, size.depth),
    )


def tokenizer_of(
    config: SmolVLAModelConfig, resolved: Resolved, env_spec: EnvSpec
) -> PromptTokenizer:
    """Load the tokenizer of the checkpoint; without one train it on the env's instructions.

    Raises:
        CheckpointError: the checkpoint's is missing or damaged.
    """
    # imported here, as listing the models needs no tokenizers
    from rlcore_model_smolvla.tokenizer import fresh_tokenizer, load_tokenizer

    size = resolved.size
    if config.model_path is None:
        return fresh_tokenizer(env_spec.all_instructions, size.max_token_len, size.vocab)
    folder = Path(config.model_path)
    return load_tokenizer(folder, resolved.published.vlm, size.max_token_len, size.vocab)


def _decision_bytes(config: SmolVLAModelConfig, resolved: Resolved) -> int:
    """Return the bytes of a stored decision, most of which are frames and the chain."""
    size = resolved.size
    images = sum(3 * height * width for height, width in resolved.cameras.values())
    chain = (config.smolvla.num_steps + 1) * size.action_horizon * size.action_dim
    states = size.state_dim + resolved.state_dim + 1  # network's, robot's, elapsed
    return images + 4 * (chain + states) + 5 * size.max_token_len + 8
