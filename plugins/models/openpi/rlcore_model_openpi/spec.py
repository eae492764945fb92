"""Check settings and checkpoint of a policy, and return the facts of the policy. No torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rlcore_flow.facts import BLOCKS, cache_size, parameter_counts, unused_parameters
from rlcore_flow.head_shapes import heads_trained_with, policy_head_shapes
from rlcore_flow.settings import exploration_key

from rlcore.contracts.errors import run_checks
from rlcore.contracts.specs import EnvSpec, PolicySpec, StateChannel, gathered_parameters
from rlcore_model_openpi.activations import LIBRARIES, activations
from rlcore_model_openpi.contradictions import check_settings
from rlcore_model_openpi.data_configs import STATES
from rlcore_model_openpi.files import (
    asset_of,
    check_copied_files,
    check_folder,
    check_stored_heads,
    check_written,
    load_stats,
)
from rlcore_model_openpi.layout import (
    LANGUAGE_MODEL,
    adapter_count,
    expert_shapes,
    network_shapes,
)
from rlcore_model_openpi.resolved import Resolved, masked_images, resolve
from rlcore_model_openpi.settings import OpenPIModelConfig


def policy_spec(config: OpenPIModelConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: a value out of its range, or settings that contradict each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    settings = config.openpi
    size = resolved.size
    values = resolved.values
    heads = policy_head_shapes(settings, size, resolved.critic_hidden, values)
    check_settings(config, resolved, env_spec)
    # imported here, as listing the models needs no SentencePiece
    from rlcore_model_openpi.tokenizer import fresh_tokenizer, load_tokenizer

    if config.model_path is None:
        tokenizer = fresh_tokenizer(env_spec.all_instructions, size)
    else:
        folder = Path(config.model_path)
        check_written(folder, resolved)
        check_stored_heads(folder, resolved, heads_trained_with(settings, has_critic=values > 0))
        check_copied_files(folder)
        _, tokenizer, _ = run_checks(
            partial(check_folder, folder, size, heads),
            partial(load_tokenizer, folder, size),
            partial(load_stats, config, resolved, env_spec),
        )
    tokenizer.checked(
        env_spec.all_instructions, env_spec.state_dim if resolved.discrete_state else None
    )
    total, trainable = parameter_counts(
        config,
        settings,
        network=network_shapes(size),
        expert=expert_shapes(size),
        heads=heads,
        adapters=adapter_count(size, config.lora_rank),
    )
    images = resolved.num_images + masked_images(config, resolved)
    tokens = images * size.image_tokens + size.max_token_len
    return PolicySpec(
        name=config.model_type,
        num_images=resolved.num_images,
        state_dim=size.action_dim if resolved.uses_state else 0,
        states=_learned_states(config, resolved),
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
        exploration_key=exploration_key(settings, "openpi"),
        unused_parameters=unused_parameters(settings, values, LANGUAGE_MODEL, size.depth),
    )


def _learned_states(config: OpenPIModelConfig, resolved: Resolved) -> tuple[StateChannel, ...]:
    """Return the state channels of the checkpoint's data set; empty if that is unknown."""
    path = None if config.model_path is None else Path(config.model_path)
    if path is None or not resolved.uses_state or resolved.published.lerobot is not None:
        return ()
    return STATES.get(asset_of(path, resolved, config.openpi.asset_id), ())


def _decision_bytes(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Return the bytes of a stored decision, most of which are prepared images and the chain."""
    size = resolved.size
    images = resolved.num_images * 3 * size.image_size**2
    chain = (config.openpi.num_steps + 1) * size.action_horizon * size.action_dim
    return images + 4 * chain + 9 * size.max_token_len + 4 * size.action_dim
