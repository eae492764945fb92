"""Check settings and checkpoint of a policy, and return the facts of the policy. No torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore_flow.head_shapes import NOISE_HEAD, NOISE_HIDDEN, VALUE_HEAD, head_shapes
from rlcore_flow.settings import exploration_key
from rlcore_weights.headers import count

from rlcore.contracts.errors import run_checks
from rlcore.contracts.specs import EnvSpec, PolicySpec, gathered_parameters
from rlcore_model_smolvla.activations import LIBRARIES, activations
from rlcore_model_smolvla.layout import VLM, adapter_count, expert_shapes, network_shapes
from rlcore_model_smolvla.resolved import Resolved, load_normalizer, resolve
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.weight_files import check_stored

if TYPE_CHECKING:
    from rlcore_model_smolvla.tokenizer import PromptTokenizer

BLOCKS = r"(.*\.layers\.\d+)\."
"""Regular expression of the prefix of a transformer layer's parameters."""
_TEXT = f"actor.network.{VLM}.text_model."


def policy_spec(config: SmolVLAModelConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: a value out of its range, or settings that contradict each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    size = resolved.size
    heads = _head_shapes(config, resolved)
    if config.model_path is not None:
        run_checks(
            partial(check_stored, Path(config.model_path), network_shapes(size), heads),
            partial(load_normalizer, resolved, env_spec),
        )
    tokenizer_of(config, resolved, env_spec).check(env_spec.all_instructions)
    total, trainable = _parameters(config, resolved)
    return PolicySpec(
        name=config.model_type,
        num_images=len(resolved.cameras),
        state_dim=size.state_dim,
        action_dim=resolved.action_dim,
        num_action_chunks=config.num_action_chunks,
        action_horizon=size.action_horizon,
        value_dim=resolved.values,
        sft_objective="flow_matching",
        parameters=total,
        trainable_parameters=trainable,
        gathered_parameters=gathered_parameters(network_shapes(size), BLOCKS),
        cache_size=_cache_size(resolved),
        activations=activations(config, resolved),
        sample_bytes=_decision_bytes(config, resolved),
        library_bytes=LIBRARIES if size.vision == "siglip" else 0,
        has_checkpointing=True,
        has_blocks=True,
        starts_from_noise=True,
        has_samples=True,
        noise_shape=(size.action_horizon, size.action_dim),
        exploration_key=exploration_key(config.smolvla, "smolvla"),
        unused_parameters=_unused_parameters(resolved),
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


def _parameters(config: SmolVLAModelConfig, resolved: Resolved) -> tuple[int, int]:
    """Return the number of all parameters, and of those that RL trains."""
    size = resolved.size
    network = network_shapes(size)
    frozen_vlm = config.smolvla.train_expert_only or config.is_lora
    added = sum(map(count, _head_shapes(config, resolved).values()))
    added += adapter_count(size, config.lora_rank) if config.is_lora else 0
    trained = expert_shapes(size) if frozen_vlm else network
    return count(network) + added, count(trained) + added


def _unused_parameters(resolved: Resolved) -> tuple[str, ...]:
    """Return name prefixes of parameters that no output depends on.

    The action expert reads keys and values of the VLM's last layer, and not the rest of that layer.
    """
    last = f"{_TEXT}layers.{resolved.size.depth - 1}."
    after = ("self_attn.q_proj", "self_attn.o_proj", "mlp", "post_")
    return (*(last + name for name in after), _TEXT + "norm")


def _cache_size(resolved: Resolved) -> int:
    """Return how many numbers per row the VLM computes once for all denoising steps.

    They are keys and values of cameras, prompt and state, including padding.
    """
    size = resolved.size
    tokens = size.prefix_len(len(resolved.cameras))
    return tokens * 2 * size.depth * size.kv_heads * size.head_dim


def _decision_bytes(config: SmolVLAModelConfig, resolved: Resolved) -> int:
    """Return the bytes of a stored decision, most of which are frames and the chain."""
    size = resolved.size
    images = sum(3 * height * width for height, width in resolved.cameras.values())
    chain = (config.smolvla.num_steps + 1) * size.action_horizon * size.action_dim
    states = size.state_dim + resolved.state_dim + 1  # network's, robot's, elapsed
    return images + 4 * (chain + states) + 5 * size.max_token_len + 8


def _head_shapes(
    config: SmolVLAModelConfig, resolved: Resolved
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of the parameters of critic and noise head, if the policy has them."""
    size = resolved.size
    smolvla = config.smolvla
    widths: dict[str, list[int]] = {}
    if config.add_value_head:
        inputs = size.expert_width + int(smolvla.critic_elapsed)
        widths[VALUE_HEAD] = [inputs, *smolvla.critic_hidden, resolved.values]
    if smolvla.noise_method == "flow_noise":
        widths[NOISE_HEAD] = [size.expert_width, *NOISE_HIDDEN, size.action_dim]
    return {head: head_shapes(head, head_widths) for head, head_widths in widths.items()}
