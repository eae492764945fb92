"""Resolve the keys of `actor.model` and check them against each other and the env. No torch."""

from __future__ import annotations

from dataclasses import replace

from rlcore_prismatic.folders import Folders
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.resolved import resolve as resolve_shared
from rlcore_prismatic.spec import checked_spec
from rlcore_prismatic.trained import check_crop, check_kind, check_same, written_settings

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_openvla.settings import OpenVLAConfig

EPSILON = 0.0
"""Added to the range of an action entry: nothing in the original OpenVLA, unlike OpenVLA-OFT."""


def resolve(config: OpenVLAConfig, env: EnvSpec) -> Resolved:
    """Fill in the nulls of `config`.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint was trained with other settings.
    """
    resolved = replace(resolve_shared(config, env), epsilon=EPSILON)
    if resolved.folders is not None:
        _check_trained(config, resolved.folders)
    return resolved


def policy_spec(config: OpenVLAConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    resolved = resolve(config, env_spec)
    spec = checked_spec(
        config,
        resolved,
        env_spec,
        sft="token_cross_entropy",
        written=config.num_action_chunks * resolved.action_dim - 1,  # the last is never an input
        causal=True,
    )
    return replace(spec, cache_size=_cached(config, resolved))


def _cached(config: OpenVLAConfig, resolved: Resolved) -> int:
    """Return the numbers in a row's cache: keys and values of all tokens except the last."""
    size = resolved.size
    decision = config.num_action_chunks * resolved.action_dim
    tokens = resolved.num_images * size.patches + resolved.prompt_length + decision - 1
    return 2 * size.depth * tokens * size.kv_heads * (size.width // size.heads)


def _check_trained(config: OpenVLAConfig, folders: Folders) -> None:
    """Check the settings that shapes don't show against those of the training.

    rlcore's checkpoints record the number of actions and of images. Published checkpoints don't;
    they were trained with one of each. Fewer actions are accepted, as no token attends to later
    ones.

    Raises:
        CheckpointError: a setting differs.
    """
    check_kind(config, folders)
    check_same(config, folders, ("center_crop", "action_norm"))
    check_crop(config, folders)
    trained = written_settings(folders)
    chunks = trained.get("num_action_chunks", 1)
    images = trained.get("num_images_in_input", 1)
    if config.num_action_chunks > chunks:
        raise CheckpointError(
            f"actor.model.num_action_chunks must be at most {chunks}, the actions per decision "
            f"that {folders.own} was trained to write, got {config.num_action_chunks}",
            hint=f"set actor.model.num_action_chunks={chunks}; only a model trained from scratch "
            "can learn longer chunks, such as model=openvla_tiny",
        )
    if config.num_images_in_input not in (None, images):
        raise CheckpointError(
            f"actor.model.num_images_in_input must be {images}, as in the training of "
            f"{folders.own}, got {config.num_images_in_input}"
        )
