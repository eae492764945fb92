"""Resolve the settings of `actor.model`: fill in every null, and check them. No torch.

A null takes the value that the checkpoint's files state, else the default of the size.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_flow.checks import (
    check_chunk,
    check_env,
    check_exploration,
    check_heads,
    check_training,
    require,
)
from rlcore_flow.head_shapes import HEADS_FILE, heads_trained_with
from rlcore_flow.lerobot import read_statistics
from rlcore_flow.normalize import Formula, Normalizer, Stats
from rlcore_flow.settings import values_of

from rlcore.contracts.errors import CheckpointError, ConfigError, did_you_mean
from rlcore.contracts.specs import EnvSpec
from rlcore_model_smolvla.lerobot import CONFIG_FILE, Published, read_published
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.sizes import SIZES, NetworkSize

KEY = "actor.model.smolvla"
Z_SCORE = Formula(quantile=False, lerobot=True)
# Sizes that a folder states and a key may leave to it.
_TAKEN = (
    "image_size",
    "depth",
    "expert_width",
    "expert_mlp",
    "self_attention_every",
    "action_dim",
    "state_dim",
    "action_horizon",
    "max_token_len",
)


@dataclass(frozen=True)
class Resolved:
    """The settings of `actor.model` without nulls.

    Attributes:
        size: sizes of the network.
        cameras: names, heights and widths of the cameras that the policy reads.
        state_dim, action_dim: entries of the env's state and action.
        values: V, values per decision; 0 without a critic.
        published: the settings that the checkpoint's files state.
    """

    size: NetworkSize
    cameras: Mapping[str, tuple[int, int]]
    state_dim: int
    action_dim: int
    values: int
    published: Published


def resolve(config: SmolVLAModelConfig, env_spec: EnvSpec) -> Resolved:
    """Fill in the nulls of `config`, and check the settings.

    Raises:
        ConfigError: the size is unknown, two values exclude each other, or a value doesn't fit the
            env.
        CheckpointError: the folder's settings are damaged or not supported, or differ from those
            of `config`.
    """
    smolvla = config.smolvla
    folder = None if config.model_path is None else Path(config.model_path)
    published = Published() if folder is None else read_published(folder)
    size = _size(config, published)
    images = config.images(len(env_spec.cameras), trained=published.cameras)
    action_dim = env_spec.action_dim if config.action_dim is None else config.action_dim
    check_chunk(KEY, size.action_horizon, config)
    check_exploration(KEY, smolvla)
    check_training(KEY, smolvla, config)
    check_env(images, action_dim, env_spec)
    for name, entries, room in (
        ("an action", env_spec.action_dim, size.action_dim),
        ("the state", env_spec.state_dim, size.state_dim),
    ):
        require(
            entries <= room,
            f"env {env_spec.name!r} has {entries} entries of {name}, the network has room for "
            f"{room}",
            f"set {KEY}.size=smolvla, which has room for 32"
            if room < entries <= SIZES["smolvla"].action_dim
            else "choose another model, or an env with fewer entries",
        )
    has_critic = bool(config.add_value_head)
    if folder is not None:
        _check_written(folder, size, images, published)
        current = heads_trained_with(smolvla, has_critic=has_critic)
        check_heads(folder / HEADS_FILE, published.heads, current, KEY)
    return Resolved(
        size=size,
        cameras={c.name: (c.height, c.width) for c in env_spec.cameras[:images]},
        state_dim=env_spec.state_dim,
        action_dim=action_dim,
        values=values_of(smolvla, config.num_action_chunks, add_value_head=has_critic),
        published=published,
    )


def load_normalizer(resolved: Resolved, env_spec: EnvSpec) -> Normalizer:
    """Read the statistics of the checkpoint.

    Where there are none, actions are scaled to the env's range, and the state is left unchanged.

    Raises:
        CheckpointError: they are missing, damaged, or of another robot.
    """
    published = resolved.published
    unchanged = Stats.identity(env_spec.state_dim)
    low = np.array(env_spec.action_low, dtype=np.float64)
    in_range = Stats.of_range(low, np.array(env_spec.action_high, dtype=np.float64)).rounded()
    if published.state is None or published.actions is None:
        return Normalizer(unchanged, in_range, Z_SCORE, Z_SCORE)
    return Normalizer(
        read_statistics(published.state, "state", unchanged),
        read_statistics(published.actions, "actions", in_range),
        published.state.formula,
        published.actions.formula,
    )


def _size(config: SmolVLAModelConfig, published: Published) -> NetworkSize:
    """Return the named size, with what the folder states and then what the keys set.

    Raises:
        ConfigError: the name is unknown.
    """
    smolvla = config.smolvla
    if smolvla.size not in SIZES:
        raise ConfigError(
            f"{KEY}.size must be one of {', '.join(SIZES)}; got {smolvla.size!r}."
            f"{did_you_mean(smolvla.size, SIZES)}"
        )
    sizes = {name: published.sizes[name] for name in _TAKEN if name in published.sizes}
    for name in ("action_horizon", "max_token_len"):
        value = getattr(smolvla, name)
        if value is not None:
            sizes[name] = value
    return replace(SIZES[smolvla.size], **sizes)


def _check_written(folder: Path, size: NetworkSize, images: int, published: Published) -> None:
    """Check the settings against those that the folder states.

    Raises:
        CheckpointError: settings differ; it names them.
    """
    current: dict[str, Any] = {**asdict(size), "num_images_in_input": images}
    trained: dict[str, Any] = dict(published.sizes)
    if published.cameras is not None:
        trained["num_images_in_input"] = published.cameras
    different = [name for name in current if name in trained and trained[name] != current[name]]
    if not different:
        return
    mismatches = ", ".join(
        f"{name} {trained[name]!r} (got {current[name]!r})" for name in different
    )
    path = folder / CONFIG_FILE
    if different == ["num_images_in_input"]:
        hint = (
            f"set actor.model.num_images_in_input={published.cameras}, with an env that renders as "
            "many"
        )
    elif set(different) <= {"action_horizon", "max_token_len"}:
        keys = " and ".join(f"{KEY}.{name}" for name in different)
        hint = f"leave {keys} out to take the values in {path}"
    else:
        fitting = [
            name for name, other in SIZES.items() if _named(trained) <= asdict(other).items()
        ]
        hint = f"set {KEY}.size={fitting[0]}" if fitting else f"{KEY}.size must be that of {path}"
    raise CheckpointError(f"{folder} was trained with other settings: {mismatches}", hint=hint)


def _named(trained: Mapping[str, Any]) -> ItemsView[str, Any]:
    """Return the stated sizes that only the name of a size determines."""
    left_to_keys = (*_TAKEN, "num_images_in_input")
    return {name: x for name, x in trained.items() if name not in left_to_keys}.items()
