"""What a checkpoint folder must hold, checked before any worker starts. No tensor library.

    model.safetensors                     network, under openpi's names
    rl_heads.safetensors                  critic and noise head, if there are any
    assets/<asset_id>/norm_stats.json     normalisation statistics
    paligemma_tokenizer.model             tokenizer of the prompt
    config.json                           settings and network size, as it was trained

Folders without `config.json` (published openpi checkpoints) work too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.reading import read_json
from rlcore.specs import EnvSpec
from rlcore.track.damage import damaged
from rlcore.track.headers import TensorHeader, check_fit, read_headers
from rlcore_model_openpi.layout import (
    NOISE_HEAD,
    head_keys,
    network_keys,
    network_shapes,
    range_keys,
)
from rlcore_model_openpi.normalize import Normalizer, find_stats, read_stats
from rlcore_model_openpi.sizes import NetworkSize

CONFIG_FILE = "config.json"
NETWORK_FILE, HEADS_FILE = "model.safetensors", "rl_heads.safetensors"
TOKENIZER_FILES = ("paligemma_tokenizer.model", "tokenizer.model")


def check_folder(
    folder: Path, size: NetworkSize, heads: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> None:
    """Check that the folder exists, its files are complete and its weights fit the network.

    Statistics are checked by :func:`load_stats`, the tokenizer by
    :func:`rlcore_model_openpi.tokenizer.load_tokenizer`. Reads headers only, so it is quick.

    Args:
        folder: the checkpoint.
        size: of the network.
        heads: shapes of the parameters of each head of the policy. A head that the folder lacks
            starts fresh.

    Raises:
        CheckpointError: names what is missing, damaged or different.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    if not (folder / NETWORK_FILE).exists():
        raise CheckpointError(
            f"{folder} has no {NETWORK_FILE}",
            hint="set actor.model.model_path to a folder in openpi's layout",
        )
    headers = read_headers(folder / NETWORK_FILE)
    check_network(folder / NETWORK_FILE, headers, network_shapes(size))
    path = folder / HEADS_FILE if (folder / HEADS_FILE).exists() else folder / NETWORK_FILE
    headers = read_headers(path)
    for head, shapes in heads.items():
        if any(name.startswith(f"{head}.") for name in head_keys(headers)):
            check_head(path, headers, head, shapes)


def check_network(
    path: Path, headers: Mapping[str, TensorHeader], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse a file whose weights do not fit the network."""
    stored = {name: headers[key] for name, key in network_keys(headers).items()}
    hint = "check actor.model.openpi.config_name and size, which fix the network's shape"
    check_fit(path, stored, shapes, hint=hint)


def check_head(
    path: Path,
    headers: Mapping[str, TensorHeader],
    head: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Refuse a file whose `head` has other shapes."""
    keys = head_keys(headers).items()
    stored = {name: headers[key] for name, key in keys if name.startswith(f"{head}.")}
    check_fit(path, stored, shapes, hint=f"move {HEADS_FILE} away to start with fresh heads")


def find_tokenizer(folder: Path) -> Path:
    """The tokenizer file of a checkpoint; CheckpointError with the possible names otherwise."""
    for place in (folder, folder / "assets"):
        for name in TOKENIZER_FILES:
            if (place / name).is_file():
                return place / name
    raise CheckpointError(
        f"{folder} has no tokenizer ({' or '.join(TOKENIZER_FILES)})",
        hint=f"copy PaliGemma's tokenizer file to {folder / TOKENIZER_FILES[0]}",
    )


def load_stats(
    folder: Path, env_spec: EnvSpec, *, asset_id: str | None, default_id: str, quantile: bool
) -> Normalizer:
    """Statistics of a checkpoint, checked to be long enough for the env.

    Args:
        asset_id: the requested folder; None: `default_id`, or the only one.

    Raises:
        CheckpointError: they are missing, damaged, or of another robot.
    """
    return read_stats(
        find_stats(folder, asset_id or default_id, strict=asset_id is not None),
        quantile=quantile,
        state_dim=env_spec.state_dim,
        action_dim=env_spec.action_dim,
    )


def check_written(folder: Path, size: NetworkSize, settings: Mapping[str, Any]) -> None:
    """Compare with our `config.json`, if there is one: the network's size, and the settings that
    the weights were trained with although shapes don't show them.

    Args:
        settings: those of :func:`rlcore_model_openpi.resolved.trained_with`.

    Raises:
        CheckpointError: names what is different.
    """
    content = _our_config(folder)
    path = folder / CONFIG_FILE
    if content is None:
        return
    trained = content["size"] | content.get("trained_with", {})
    asked = asdict(size) | {name: value for name, value in settings.items() if name in trained}
    different = [
        f"{name} {trained.get(name)!r} (got {value!r})"
        for name, value in asked.items()
        if trained.get(name) != value
    ]
    if different:
        raise CheckpointError(
            f"{folder} was trained with other settings: {', '.join(different)}",
            hint=f"use its settings: {path} has the keys of actor.model.openpi",
        )


def check_heads(folder: Path, heads: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse heads that fit, but were trained with another input, or whose outputs had another
    meaning.

    Args:
        heads: settings of each head of the policy, see
            :func:`rlcore_model_openpi.resolved.heads_trained_with`.

    Raises:
        CheckpointError: names what is different.
    """
    place = folder / HEADS_FILE
    trained: dict[str, Any] = {}
    if place.exists():
        trained = (_our_config(folder) or {}).get("heads_trained_with", {})
    else:  # where RLinf stores them
        place = folder / NETWORK_FILE
        bounds = _stored_range(place) if place.exists() else None
        trained = {NOISE_HEAD: {"noise_logvar_range": bounds}} if bounds else {}
    different = [
        f"{name} {trained[head][name]!r} (got {value!r})"
        for head, asked in heads.items()
        for name, value in asked.items()
        if name in trained.get(head, {}) and not _same(trained[head][name], value)
    ]
    if different:
        raise CheckpointError(
            f"the heads in {place} were trained with other settings: {', '.join(different)}",
            hint=f"use their settings (keys of actor.model.openpi), or move {HEADS_FILE} away to "
            "start with fresh heads",
        )


def _same(there: Any, here: Any) -> bool:
    """Numbers that may have been stored in bfloat16 agree to 1%."""
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(
            math.isclose(a, b, rel_tol=0.01) for a, b in zip(there, here, strict=True)
        )
    return bool(there == here)


def _our_config(folder: Path) -> dict[str, Any] | None:
    """Our `config.json`; None if it is missing, or another system's."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return None
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from error
    ours = isinstance(content, dict) and isinstance(content.get("size"), dict)
    return content if ours else None


def _stored_range(path: Path) -> list[float] | None:
    """Minimum and maximum std of a noise head, from the logarithms of their squares that RLinf
    stores with it; None without them."""
    from safetensors import safe_open  # needs no tensor library for numpy

    keys = range_keys(read_headers(path))
    if keys.keys() != {"min", "max"}:
        return None
    with safe_open(path, framework="numpy") as file:
        bounds = [float(file.get_tensor(keys[end]).reshape(-1)[0]) for end in ("min", "max")]
    return [round(math.exp(bound / 2), 4) for bound in bounds]
