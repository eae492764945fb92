"""Check the checkpoint of a policy, and return the facts of the policy. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rlcore_weights.headers import count

from rlcore.contracts.errors import run_checks
from rlcore.contracts.specs import EnvSpec, PolicySpec, StateChannel, gathered_parameters
from rlcore_prismatic.activations import LIBRARIES, activations, decision_bytes
from rlcore_prismatic.adapters import Adapters, read_adapters
from rlcore_prismatic.files import check_folders
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.layout import (
    Shape,
    adapter_shapes,
    is_film,
    is_unused,
    network_shapes,
    value_head_shapes,
)
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.runs import check_copied_files
from rlcore_prismatic.scaling import load_statistics
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.stored import merged_parts, stored_network

BLOCKS = r"(.*\.(?:blocks|layers)\.\d+)\."
"""Regular expression of the prefix of a transformer block's parameters."""
LIBERO_STATE = (
    StateChannel("ee_position", 3),
    StateChannel("ee_axis_angle", 3),
    StateChannel("gripper_finger_positions", 2),
)
"""State channels of the data sets whose names start with libero_, such as libero_10_no_noops."""


def checked_spec(
    config: PrismaticModelConfig,
    resolved: Resolved,
    env: EnvSpec,
    *,
    sft: str | None,
    written: int,
    causal: bool = False,
) -> PolicySpec:
    """Return the facts of the policy, after checking its checkpoint.

    Args:
        sft: name of the policy's supervised loss; None without one.
        written: number of tokens that the network reads after the prompt.
        causal: whether a token attends only to the tokens before it.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
        ConfigError: the prompt of one of the env's instructions is too long.
    """
    # imported here, as listing the models needs no tokenizer
    from rlcore_prismatic.prompt import FILE_NAME as TOKENIZER_FILE
    from rlcore_prismatic.prompt import fresh_tokenizer, load_tokenizer

    head = head_shapes(config, resolved)
    folders = resolved.folders
    adapters = None
    states: tuple[StateChannel, ...] = ()
    if folders is None:
        fresh_tokenizer(env.all_instructions, resolved.prompt_length, resolved.size)
    else:
        check_copied_files(folders)
        place = folders.find(TOKENIZER_FILE).parent
        tokenizer, scaling, adapters = run_checks(
            partial(load_tokenizer, place, resolved.prompt_length, resolved.size),
            partial(load_statistics, config, resolved),
            partial(_check_weights, config, resolved, folders, head),
        )
        tokenizer.checked(env.all_instructions)
        if scaling.key.startswith("libero_") and resolved.proprio_dim:
            states = LIBERO_STATE
    total, trainable = _parameters(config, resolved, head, adapters)
    return PolicySpec(
        name=config.model_type,
        num_images=resolved.num_images,
        state_dim=resolved.proprio_dim,
        states=states,
        action_dim=len(resolved.entries),
        num_action_chunks=config.num_action_chunks,
        action_horizon=config.num_action_chunks,
        value_dim=resolved.values,
        sft_objective=sft,
        parameters=total,
        trainable_parameters=trainable,
        gathered_parameters=gathered_parameters(
            network_shapes(resolved.size, film=resolved.film), BLOCKS
        ),
        activations=activations(config, resolved, extra_tokens=written, causal=causal),
        sample_bytes=decision_bytes(config, resolved),
        library_bytes=LIBRARIES,
        has_checkpointing=True,
        has_blocks=True,
        has_temperature=True,
    )


def _check_weights(
    config: PrismaticModelConfig, resolved: Resolved, folders: Folders, head: Mapping[str, Shape]
) -> Adapters | None:
    check_folders(folders, resolved, head)
    adapters = load_adapters(config, resolved)
    if adapters is not None and adapters.copies:
        from rlcore_prismatic.copies import check_copies  # imports torch

        check_copies(adapters, folders.base)
    return adapters


def load_adapters(config: PrismaticModelConfig, resolved: Resolved) -> Adapters | None:
    """Return the checkpoint's adapters, or None if it has none. Reads headers only.

    Raises:
        CheckpointError: they don't fit the network, or can't be trained as the settings want.
    """
    folders = resolved.folders
    if folders is None or folders.adapters is None:
        return None
    return read_adapters(
        folders.adapters,
        network_shapes(resolved.size, film=resolved.film),
        config.lora_rank if config.is_lora else None,
        component_shapes={
            name: part.shapes[own]
            for part in resolved.components
            if not part.in_network
            for name, own in part.names.items()
        },
        merged=merged_parts(folders, resolved.components, stored_network(folders.base)),
    )


def head_shapes(config: PrismaticModelConfig, resolved: Resolved) -> dict[str, Shape]:
    """Return the shapes of the critic's parameters; empty without a critic."""
    if not resolved.values:
        return {}
    inputs = resolved.size.width + int(config.critic_elapsed)
    return value_head_shapes(inputs, tuple(config.critic_hidden), resolved.values)


def _parameters(
    config: PrismaticModelConfig,
    resolved: Resolved,
    head: Mapping[str, Shape],
    loaded: Adapters | None,
) -> tuple[int, int]:
    """Return the number of all parameters, and of the trained ones.

    Args:
        loaded: adapters of the checkpoint.
    """
    size = resolved.size
    network = network_shapes(size, film=resolved.film)
    # FiLM's towers are counted with the network
    own = [part.shapes for part in resolved.components if not part.in_network]
    outside = count(head) + sum(count(shapes) for shapes in own)
    if config.is_lora:
        adapted = network
        if loaded is not None:
            adapted = {f"{module}.weight": network[f"{module}.weight"] for module in loaded.modules}
        adapters = adapter_shapes(adapted, config.lora_rank)
        film = {name: shape for name, shape in network.items() if is_film(name)}
        total = count(network) + count(adapters) + outside
        candidates = {**adapters, **film}
    else:
        total = count(network) + outside
        candidates = network
    trained = {name: shape for name, shape in candidates.items() if not is_unused(name, size)}
    return total, count(trained) + outside
