"""Resolve the keys of `actor.model` and check them against each other and the env. No torch."""

from __future__ import annotations

from dataclasses import replace

from rlcore_prismatic.layout import Shape, linear, network_shapes, norm
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.resolved import resolve as resolve_shared
from rlcore_prismatic.sizes import PrismaticSize
from rlcore_prismatic.spec import checked_spec
from rlcore_prismatic.stored import Component
from rlcore_prismatic.trained import check_crop, check_kind, check_same

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig

RESIDUAL_BLOCKS = 2
# Settings that must be those of the training. num_action_chunks is one of them because all tokens
# of a decision attend to each other.
_TRAINED = (
    "implement_version",
    "num_action_chunks",
    "num_images_in_input",
    "use_film",
    "use_l1_regression",
    "use_proprio",
    "proprio_dim",
    "center_crop",
    "action_norm",
)
_EVALUATION_ONLY = (
    "actor.model.use_l1_regression=true gives actions without log-probs, which can't be trained"
)


def resolve(config: OpenVLAOFTConfig, env: EnvSpec) -> Resolved:
    """Fill in the nulls of `config`.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint was trained with other settings.
    """
    shared = resolve_shared(config, env)
    extras = ("use_proprio", "use_film", "use_l1_regression")
    enabled = [name for name in extras if getattr(config, name)]
    if enabled and config.implement_version != "official":
        raise ConfigError(
            f"actor.model.{{{', '.join(enabled)}}} must be false with implement_version "
            f"{config.implement_version!r}",
            hint="set actor.model.implement_version=official if the checkpoint has them",
        )
    if config.use_proprio and config.proprio_dim != env.state_dim:
        raise ConfigError(
            f"actor.model.proprio_dim must be {env.state_dim}, the state entries of env "
            f"{env.name!r}, got {config.proprio_dim}"
        )
    if shared.folders is not None:
        check_kind(config, shared.folders)
        unused = () if config.use_proprio else ("proprio_dim",)
        check_same(config, shared.folders, [name for name in _TRAINED if name not in unused])
        check_crop(config, shared.folders)
    parts = _parts(config, shared)
    return replace(
        shared,
        proprio_dim=config.proprio_dim if config.use_proprio else 0,
        film=config.use_film,
        components=tuple(part for part in parts if getattr(config, part.key)),
        left_out=tuple(part for part in parts if not getattr(config, part.key)),
    )


def policy_spec(config: OpenVLAOFTConfig, env_spec: EnvSpec) -> PolicySpec:
    """Return the facts of the policy under these settings, after all checks.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
    """
    l1 = config.use_l1_regression
    resolved = resolve(config, env_spec)
    between = int(config.use_proprio) + int(config.implement_version == "official")
    spec = checked_spec(
        config,
        resolved,
        env_spec,
        sft=None if l1 else "token_cross_entropy",
        written=config.num_action_chunks * resolved.action_dim + between,
    )
    return replace(spec, has_temperature=not l1, evaluation_only=_EVALUATION_ONLY if l1 else "")


def _parts(config: OpenVLAOFTConfig, resolved: Resolved) -> tuple[Component, ...]:
    """Return all components that the original trainer saves in separate files."""
    size = resolved.size
    prefix = "vision_backbone."
    film = {
        name.removeprefix(prefix): shape
        for name, shape in network_shapes(size, film=True).items()
        if name.startswith(prefix)
    }
    proprio = proprio_shapes(size, config.proprio_dim)
    head = action_head_shapes(size, resolved.action_dim)
    return (
        Component("vision_backbone", film, "network.vision_backbone", "use_film"),
        Component("proprio_projector", proprio, "proprio_projector", "use_proprio"),
        Component("action_head", head, "action_head", "use_l1_regression"),
    )


def proprio_shapes(size: PrismaticSize, entries: int) -> dict[str, Shape]:
    """Return the shapes of the state's projector, for `entries` state entries."""
    return dict([*linear("fc1", entries, size.width), *linear("fc2", size.width, size.width)])


def action_head_shapes(size: PrismaticSize, action_dim: int) -> dict[str, Shape]:
    """Return the shapes of the L1 head's parameters."""
    width = size.width
    inputs = width * action_dim
    blocks = [f"model.mlp_resnet_blocks.{number}.ffn" for number in range(RESIDUAL_BLOCKS)]
    return dict(
        [
            *norm("model.layer_norm1", inputs),
            *linear("model.fc1", inputs, width),
            *(item for block in blocks for item in norm(f"{block}.0", width)),
            *(item for block in blocks for item in linear(f"{block}.1", width, width)),
            *norm("model.layer_norm2", width),
            *linear("model.fc2", width, action_dim),
        ]
    )
