"""Check the files of a checkpoint folder before any worker starts. No tensor library.

    model.safetensors                     network, under openpi's names; or in another layout of
                                          rlcore_weights.layouts: shards, full_weights.pt of a run
    rl_heads.safetensors                  critic and noise head, if there are any
    assets/<asset_id>/norm_stats.json     normalisation statistics
    paligemma_tokenizer.model             tokenizer of the prompt
    config.json                           settings and network size of the training

Folders of openpi, RLinf and LeRobot are accepted too: published.py reads their `config.json`, and
lerobot.py reads LeRobot's statistics. weight_files.py and tokenizer_files.py find the weights and
the tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_flow.checks import check_heads
from rlcore_flow.head_shapes import HEADS_FILE, NOISE_HEAD
from rlcore_flow.lerobot import read_statistics
from rlcore_flow.normalize import Normalizer, Stats
from rlcore_weights.layouts import (
    FULL_WEIGHTS,
    StoredWeights,
    full_scale,
    has_weights,
    weights_file,
)

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import EnvSpec
from rlcore_model_openpi.layout import head_keys, network_shapes, range_keys
from rlcore_model_openpi.lerobot import VARIANTS
from rlcore_model_openpi.normalize import FILE_NAME, find_stats, read_stats
from rlcore_model_openpi.published import CONFIG_FILE
from rlcore_model_openpi.resolved import KEY, Resolved, trained_with
from rlcore_model_openpi.settings import OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES, NetworkSize
from rlcore_model_openpi.tokenizer_files import TOKENIZER_FILES, TOKENIZER_PAGE, tokenizers
from rlcore_model_openpi.weight_files import (
    check_head,
    check_network,
    find_weights,
    heads_of,
)

_PUBLISHED_VARIANTS = dict(zip(VARIANTS, ("gemma_2b", "gemma_300m"), strict=True))
# Keys of actor.model.openpi that are taken from the checkpoint when they are null.
_TAKEN = {"action_horizon", "max_token_len", "discrete_state_input"}


def check_folder(
    folder: Path, size: NetworkSize, heads: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> None:
    """Check that the folder exists, its files are complete and its weights fit the network.

    Only headers of the weights are read, which is quick. Statistics are checked by
    :func:`load_stats`, the tokenizer by :func:`rlcore_model_openpi.tokenizer.load_tokenizer`.

    Args:
        folder: the checkpoint.
        size: size of the network.
        heads: shapes of the parameters of each head of the policy. A head that the folder lacks is
            not an error: it starts with fresh weights.

    Raises:
        CheckpointError: a file is missing, damaged or different; the message names it.
    """
    stored = find_weights(folder)
    check_network(weights_file(folder) or folder, stored.headers, network_shapes(size))
    path, headers = heads_of(folder, stored)
    for head, shapes in heads.items():
        if any(name.startswith(f"{head}.") for name in head_keys(headers)):
            check_head(path, headers, head, shapes)


def check_copied_files(folder: Path) -> None:
    """Check that a folder with the weights of an RLinf run also has statistics and a tokenizer.

    RLinf's runs save only weights; users must copy the other files into the folder.

    Raises:
        CheckpointError: files are missing; the message names all of them, and their sources.
    """
    weights = weights_file(folder)
    if weights is None or weights.name != FULL_WEIGHTS:
        return
    places = {FILE_NAME: list(folder.rglob(FILE_NAME)), TOKENIZER_FILES[0]: tokenizers(folder)}
    missing = [name for name, paths in places.items() if not paths]
    if missing:
        raise CheckpointError(
            f"{folder} holds a run's weights, but has no {' and no '.join(missing)}",
            hint="copy the folder of statistics from the model that the run began with (its "
            f"actor.model.model_path) into {folder}, and the tokenizer: "
            f"curl -L -o {folder / TOKENIZER_FILES[0]} {TOKENIZER_PAGE}",
        )


def load_stats(config: OpenPIModelConfig, resolved: Resolved, env_spec: EnvSpec) -> Normalizer:
    """Load the statistics of the checkpoint at `model_path` and check that they fit the env.

    Statistics are taken from the folder `asset_id`; if that is null, from config_name's folder, or
    else from the only `norm_stats.json` there is. LeRobot's files name theirs.

    Raises:
        CheckpointError: they are missing, damaged, or of another robot.
    """
    assert config.model_path is not None
    state_dim = env_spec.state_dim if resolved.uses_state else None
    state = resolved.state_formula
    actions = resolved.action_formula
    lerobot = resolved.published.lerobot
    if lerobot is not None:
        fitted_state = None
        if state_dim is not None:
            fitted_state = read_statistics(lerobot.state, "state", Stats.identity(state_dim))
        fitted_actions = read_statistics(
            lerobot.actions, "actions", range_stats(resolved, env_spec)
        )
        return Normalizer(fitted_state, fitted_actions, state, actions)
    path = _stats_file(Path(config.model_path), resolved, config.openpi.asset_id)
    return read_stats(path, state, actions, state_dim=state_dim, action_dim=env_spec.action_dim)


def range_stats(resolved: Resolved, env_spec: EnvSpec) -> Stats:
    """Return the statistics of actions where a checkpoint has none: those of the env's range."""
    low = np.array(env_spec.action_low, dtype=np.float64)
    high = np.array(env_spec.action_high, dtype=np.float64)
    return Stats.of_range(*resolved.data.action_range(low, high))


def asset_of(folder: Path, resolved: Resolved, asset_id: str | None) -> str:
    """Return the asset id of a checkpoint's statistics: the folder they are in."""
    path = _stats_file(folder, resolved, asset_id)
    return path.parent.relative_to(folder).as_posix().removeprefix("assets/")


def _stats_file(folder: Path, resolved: Resolved, asset_id: str | None) -> Path:
    return find_stats(folder, asset_id or resolved.data.asset_id, strict=asset_id is not None)


def check_written(folder: Path, resolved: Resolved) -> None:
    """Check the settings against those that the checkpoint's files state.

    Compares the network's size, and the settings that change what the weights mean but not their
    shapes.

    Raises:
        CheckpointError: settings differ; it names them.
    """
    current = asdict(resolved.size) | variants(resolved.size) | trained_with(resolved)
    trained = resolved.published.trained
    different = [name for name in current if name in trained and trained[name] != current[name]]
    if different:
        mismatches = ", ".join(
            f"{name} {trained[name]!r} (got {current[name]!r})" for name in different
        )
        raise CheckpointError(
            f"{folder} was trained with other settings: {mismatches}",
            hint=_setting_hint(folder / CONFIG_FILE, {name: trained[name] for name in different}),
        )


def _setting_hint(path: Path, trained: Mapping[str, Any]) -> str:
    """Return the hint for settings that differ from those in `path`."""
    if trained.keys() <= _TAKEN:
        keys = " and ".join(f"{KEY}.{name}" for name in trained)
        return f"leave {keys} out to take the values in {path}, or correct that file"
    if trained.keys() == {"num_images_in_input"}:
        cameras = trained["num_images_in_input"]
        return f"set actor.model.num_images_in_input={cameras}, with an env that renders as many"
    return f"use the settings in {path} for {KEY}.config_name, size and the other keys"


def variants(size: NetworkSize) -> dict[str, str]:
    """Return the names that openpi and LeRobot give the two Gemmas, by their config keys.

    Empty for sizes that are not published ones.
    """
    widths = ("depth", "vlm_width", "vlm_mlp", "expert_width", "expert_mlp")
    same = all(getattr(size, name) == getattr(SIZES["pi0"], name) for name in widths)
    return _PUBLISHED_VARIANTS if same else {}


def check_stored_heads(
    folder: Path, resolved: Resolved, heads: Mapping[str, Mapping[str, Any]]
) -> None:
    """Check that the stored heads were trained with these settings.

    Args:
        folder: the checkpoint.
        resolved: with the settings that its files record.
        heads: settings of each head of the policy.

    Raises:
        CheckpointError: settings differ; it names them.
    """
    place = folder / HEADS_FILE
    trained = resolved.published.heads
    if not place.exists():  # RLinf stores the heads with the network
        place = weights_file(folder) or folder
        bounds = _stored_range(find_weights(folder)) if has_weights(folder) else None
        trained = {NOISE_HEAD: {"noise_logvar_range": bounds}} if bounds else {}
    check_heads(place, trained, heads, KEY)


def _stored_range(stored: StoredWeights) -> list[float] | None:
    """Return the minimum and maximum std of a noise head that RLinf stored; None without them.

    RLinf stores the logarithms of their squares as tensors in the file of the head's weights.
    """
    keys = range_keys(stored.headers)
    if keys.keys() != {"min", "max"}:
        return None
    from rlcore_weights.tensors import read_stored  # numpy has no bfloat16

    values = dict(read_stored(stored, keys.values(), scale=full_scale))
    bounds = (float(values[keys[end]].reshape(-1)[0]) for end in ("min", "max"))
    return [round(math.exp(bound / 2), 4) for bound in bounds]
