"""Check settings and checkpoint of a policy, and return the facts of the policy. No torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rlcore_flow.head_shapes import NOISE_HEAD, NOISE_HIDDEN, VALUE_HEAD, head_shapes
from rlcore_flow.settings import exploration_key
from rlcore_weights.headers import count

from rlcore.contracts.errors import run_checks
from rlcore.contracts.specs import EnvSpec, PolicySpec, StateChannel, gathered_parameters
from rlcore_model_openpi.activations import LIBRARIES, activations
from rlcore_model_openpi.contradictions import check_settings
from rlcore_model_openpi.data_configs import STATES
from rlcore_model_openpi.files import (
    asset_of,
    check_copied_files,
    check_folder,
    check_heads,
    check_written,
    load_stats,
)
from rlcore_model_openpi.layout import (
    adapter_count,
    expert_shapes,
    network_shapes,
)
from rlcore_model_openpi.resolved import (
    Resolved,
    heads_trained_with,
    masked_images,
    resolve,
)
from rlcore_model_openpi.settings import OpenPIModelConfig

BLOCKS = r"(.*\.layers\.\d+)\."
"""Regular expression of the prefix of a transformer layer's parameters."""
_VLM = "actor.network.paligemma_with_expert.paligemma.model.language_model."


def policy_spec(config: OpenPIModelConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: a value out of its range, or settings that contradict each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    check_settings(config, resolved, env_spec)
    # imported here, as listing the models needs no SentencePiece
    from rlcore_model_openpi.tokenizer import fresh_tokenizer, load_tokenizer

    if config.model_path is None:
        tokenizer = fresh_tokenizer(env_spec.all_instructions, resolved.size)
    else:
        folder = Path(config.model_path)
        check_written(folder, resolved)
        check_heads(folder, resolved, heads_trained_with(config))
        check_copied_files(folder)
        _, tokenizer, _ = run_checks(
            partial(check_folder, folder, resolved.size, _head_shapes(config, resolved)),
            partial(load_tokenizer, folder, resolved.size),
            partial(load_stats, config, resolved, env_spec),
        )
    tokenizer.checked(
        env_spec.all_instructions, env_spec.state_dim if resolved.discrete_state else None
    )
    total, trainable = _parameters(config, resolved)
    return PolicySpec(
        name=config.model_type,
        num_images=resolved.num_images,
        state_dim=resolved.size.action_dim if resolved.uses_state else 0,
        states=_learned_states(config, resolved),
        action_dim=resolved.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=resolved.size.action_horizon,
        value_dim=resolved.values,
        sft_objective="flow_matching",
        parameters=total,
        trainable_parameters=trainable,
        gathered_parameters=gathered_parameters(network_shapes(resolved.size), BLOCKS),
        cache_size=_cache_size(config, resolved),
        activations=activations(config, resolved),
        sample_bytes=_decision_bytes(config, resolved),
        library_bytes=LIBRARIES if resolved.size.vision == "siglip" else 0,
        has_checkpointing=True,
        has_blocks=True,
        starts_from_noise=True,
        has_samples=True,
        feature_size=resolved.size.vlm_width,
        noise_shape=(resolved.size.action_horizon, resolved.size.action_dim),
        exploration_key=exploration_key(config.openpi, "openpi"),
        unused_parameters=_unused_parameters(config, resolved),
    )


def _learned_states(config: OpenPIModelConfig, resolved: Resolved) -> tuple[StateChannel, ...]:
    """Return the state channels of the checkpoint's data set; empty if that is unknown."""
    path = None if config.model_path is None else Path(config.model_path)
    if path is None or not resolved.uses_state or resolved.published.lerobot is not None:
        return ()
    return STATES.get(asset_of(path, resolved, config.openpi.asset_id), ())


def _parameters(config: OpenPIModelConfig, resolved: Resolved) -> tuple[int, int]:
    """Return the number of all parameters, and of those that RL trains."""
    size = resolved.size
    network = network_shapes(size)
    frozen_vlm = config.openpi.train_expert_only or config.is_lora
    added = sum(map(count, _head_shapes(config, resolved).values()))
    added += adapter_count(size, config.lora_rank) if config.is_lora else 0
    trained = expert_shapes(size) if frozen_vlm else network
    return count(network) + added, count(trained) + added


def _unused_parameters(config: OpenPIModelConfig, resolved: Resolved) -> tuple[str, ...]:
    """Return name prefixes of parameters that no output depends on.

    The action expert reads keys and values of the VLM's last layer. The rest of that layer only
    matters to a critic on the VLM's output.
    """
    if config.add_value_head and config.openpi.value_after_vlm:
        return ()
    last = f"{_VLM}layers.{resolved.size.depth - 1}."
    after = ("self_attn.q_proj", "self_attn.o_proj", "mlp", "post_")
    return (*(last + name for name in after), _VLM + "norm")


def _cache_size(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Return how many numbers per row the VLM computes once for all denoising steps.

    They are keys and values of cameras and prompt, including padding, and the VLM's output if the
    critic reads it.
    """
    size = resolved.size
    images = resolved.num_images + masked_images(config, resolved)
    tokens = images * size.image_tokens + size.max_token_len
    output = size.vlm_width if config.add_value_head and config.openpi.value_after_vlm else 0
    return tokens * (2 * size.depth * size.kv_heads * size.head_dim + output)


def _decision_bytes(config: OpenPIModelConfig, resolved: Resolved) -> int:
    """Return the bytes of a stored decision, most of which are prepared images and the chain."""
    size = resolved.size
    images = resolved.num_images * 3 * size.image_size**2
    chain = (config.openpi.num_steps + 1) * size.action_horizon * size.action_dim
    return images + 4 * chain + 9 * size.max_token_len + 4 * size.action_dim


def _head_shapes(
    config: OpenPIModelConfig, resolved: Resolved
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of the parameters of critic and noise head, if the policy has them."""
    size = resolved.size
    openpi = config.openpi
    widths: dict[str, list[int]] = {}
    if config.add_value_head:
        width = size.vlm_width if openpi.value_after_vlm else size.expert_width
        inputs = width + int(openpi.critic_elapsed)
        widths[VALUE_HEAD] = [inputs, *resolved.critic_hidden, resolved.values]
    if openpi.noise_method == "flow_noise":
        widths[NOISE_HEAD] = [size.expert_width, *NOISE_HIDDEN, size.action_dim]
    return {head: head_shapes(head, head_widths) for head, head_widths in widths.items()}
