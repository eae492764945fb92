"""What a checkpoint folder must hold, found out before any worker starts. No tensor library.

model.safetensors                         network, under OpenVLA's names; or in shards:
model-0000x-of-0000y.safetensors, model.safetensors.index.json
NAME--STEP_checkpoint.{safetensors,pt}    parts of a policy besides the network
rl_heads.safetensors                      critic, where there is one
dataset_statistics.json                   normalisation statistics
tokenizer.json                            Llama's tokenizer
config.json, preprocessor_config.json     as transformers wants them
adapter_model.safetensors, adapter_config.json    adapters instead of a network, see adapters.py;
                                          the network is in the folder they name
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.track.headers import TensorHeader, check_fit, damaged, read_headers
from rlcore_prismatic.adapters import ADAPTERS_CONFIG, check_adapters, has_adapters
from rlcore_prismatic.layout import VALUE_HEAD, Shape
from rlcore_prismatic.sizes import PrismaticSize
from rlcore_prismatic.statistics import CONFIG_FILE, read_json

SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
HEADS_FILE = "rl_heads.safetensors"
PREPROCESSOR_FILE = "preprocessor_config.json"
RESIZE = "resize-naive"
RLCORE = "rlcore"
"""Key of our settings in `config.json`."""

COMPONENT_SUFFIX = "rlcore_checkpoint.safetensors"
COMPONENT_HINT = "check actor.model.proprio_dim, action_dim, num_action_chunks and size"
_FIT = "check actor.model.size, which fixes the network's shape"


_LLAMA = {
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "rope_scaling": None,
    "rope_theta": 10000.0,
}
"""What all our Llamas are."""


@dataclass(frozen=True)
class Component:
    """A part of a policy that lies in a file of its own.

    Attributes:
        name: the file is called `*NAME*checkpoint*`.
        shapes: of its parameters, by their names in that file.
        module: where it is in the policy's actor, a dotted path.
        key: the setting of the model that asks for it.
    """

    name: str
    shapes: Mapping[str, Shape]
    module: str
    key: str

    @property
    def in_network(self) -> bool:
        """Whether it takes the place of a part of the network."""
        return self.module.startswith("network.")

    @property
    def prefix(self) -> str:
        """Of its names where they stand beside the network's."""
        return self.module.removeprefix("network.") + "."

    @property
    def names(self) -> dict[str, str]:
        """Its own names of the names it has beside the network's."""
        return {f"{self.prefix}{name}": name for name in self.shapes}


@dataclass(frozen=True)
class Stored:
    """Where the tensors of a network are.

    Attributes:
        headers: by name.
        files: the file of each.
    """

    headers: dict[str, TensorHeader]
    files: dict[str, Path]


def base_folder(folder: Path) -> Path:
    """Where the network of a checkpoint is: here, or where its adapters say.

    Raises:
        CheckpointError: no folder, or the adapters' network is gone.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    if not has_adapters(folder) or any((folder / n).is_file() for n in (SINGLE_FILE, INDEX_FILE)):
        return folder
    base = read_json(folder / ADAPTERS_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str) or not Path(base).is_dir():
        raise CheckpointError(
            f"{folder} holds adapters of the model in {base!r}, which is not a folder",
            hint=f"write the model's folder into {folder / ADAPTERS_CONFIG}, "
            "base_model_name_or_path",
        )
    return Path(base)


def stored_network(folder: Path) -> Stored:
    """Tensors of the shards, or of the single file.

    Raises:
        CheckpointError: a shard that is missing, damaged, or lacks what the index says.
    """
    if not (folder / INDEX_FILE).is_file():
        if not (folder / SINGLE_FILE).is_file():
            raise CheckpointError(
                f"{folder} holds neither {SINGLE_FILE} nor {INDEX_FILE}",
                hint="set actor.model.model_path to a folder in the layout of OpenVLA",
            )
        headers = read_headers(folder / SINGLE_FILE)
        return Stored(headers, dict.fromkeys(headers, folder / SINGLE_FILE))
    index = read_json(folder / INDEX_FILE).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(file, str) for file in index.values()):
        raise damaged(folder / INDEX_FILE, "it has no weight_map from tensors to files")
    missing = sorted(name for name in set(index.values()) if not (folder / name).is_file())
    if missing:
        raise CheckpointError(
            f"{folder} lacks {len(missing)} of the {len(set(index.values()))} shards its index "
            f"names: {', '.join(missing)}",
            hint="copy or download them again",
        )
    headers = {}
    for name in sorted(set(index.values())):
        found = read_headers(folder / name)
        named = {tensor for tensor, file in index.items() if file == name}
        if found.keys() != named:
            lacking = sorted(named ^ found.keys())
            raise damaged(folder / name, f"the index does not agree with it on {lacking[0]}")
        headers |= found
    return Stored(headers, {tensor: folder / file for tensor, file in index.items()})


def network_part(stored: Stored, components: Sequence[Component]) -> dict[str, TensorHeader]:
    """What of a file concerns the network: all but heads and components, which trainers that save
    the whole policy put beside it."""
    others = {name for part in components for name in part.names}
    return {
        name: header
        for name, header in stored.headers.items()
        if name not in others and not name.startswith(f"{VALUE_HEAD}.")
    }


def network_needs(
    shapes: Mapping[str, Shape], folder: Path, components: Sequence[Component], stored: Stored
) -> dict[str, Shape]:
    """What of the network its files must hold: all but what a component that stands beside it
    there takes the place of."""
    replaced = tuple(
        part.prefix
        for part in components
        if part.in_network and find_component(folder, part, stored) is None
    )
    return {name: shape for name, shape in shapes.items() if not name.startswith(replaced)}


def check_folder(
    folder: Path,
    size: PrismaticSize,
    *,
    shapes: Mapping[str, Shape],
    adapted: Mapping[str, Shape],
    head: Mapping[str, Shape],
    components: Sequence[Component],
    left_out: Sequence[Component],
    lora_rank: int | None,
) -> None:
    """The folder's files are whole, and its weights are those of this network. Headers only.

    Args:
        shapes: of the network in its files.
        adapted: of the network itself, where adapters find their places.
        head: of the critic; empty without one. One the folder does not hold starts fresh.
        components, left_out: those the settings ask for, and those they don't.
        lora_rank: of the adapters that will be trained; None where there are none.

    Raises:
        CheckpointError: what is missing, damaged or different.
    """
    base = base_folder(folder)
    stored = stored_network(base)
    _check_written_size(base / CONFIG_FILE, size)
    for component in left_out:
        _check_left_out(folder, component, stored)
    needed = network_needs(shapes, folder, components, stored)
    check_fit(base, network_part(stored, components), needed, hint=_FIT)
    for component in components:
        check_component(folder, component, stored)
    heads = read_headers(folder / HEADS_FILE) if (folder / HEADS_FILE).exists() else stored.headers
    found = {name: header for name, header in heads.items() if name.startswith(f"{VALUE_HEAD}.")}
    if head and found:
        hint = f"move {HEADS_FILE} away to start with a fresh critic"
        check_fit(folder / HEADS_FILE, found, head, hint=hint)
    if has_adapters(folder):
        check_adapters(folder, adapted, lora_rank)


def find_component(folder: Path, component: Component, stored: Stored) -> Path | None:
    """The file of a component, in a checkpoint of adapters also that beside the network they
    adapt; None where the network's files hold it.

    Raises:
        CheckpointError: it is missing, or there are several.
    """
    for place in (folder, base_folder(folder)):
        files = _files_of(component, place)
        if len(files) == 1:
            return files[0]
        if files:
            break
    if not files and component.names.keys() & stored.headers.keys():
        return None
    raise CheckpointError(
        f"{folder} must hold one file {component.name}--*_checkpoint, got "
        f"{', '.join(file.name for file in files) or 'none'}",
        hint=f"choose another actor.model.model_path, or set actor.model.{component.key}=false",
    )


def _files_of(component: Component, folder: Path) -> list[Path]:
    return [f for f in sorted(folder.glob(f"*{component.name}*checkpoint*")) if f.is_file()]


def _check_left_out(folder: Path, component: Component, stored: Stored) -> None:
    """Refuse a folder with a part that would go unread: the network was trained with it."""
    places = dict.fromkeys((folder, base_folder(folder)))
    found = [file.name for place in places for file in _files_of(component, place)]
    found += [name for name in component.names if name in stored.headers]
    if found:
        raise CheckpointError(
            f"{folder} holds {found[0]}, which actor.model.{component.key}=false leaves unread",
            hint=f"set actor.model.{component.key}=true, or move it away if it is of no use",
        )


def check_component(folder: Path, component: Component, stored: Stored) -> None:
    """Refuse a component's file that is missing, damaged, or of other shapes. Of a `.pt` file
    only the container is looked at: its contents need torch to be read."""
    path = find_component(folder, component, stored)
    if path is not None and path.suffix == ".safetensors":
        check_fit(path, read_headers(path), component.shapes, hint=COMPONENT_HINT)
    elif path is not None and not zipfile.is_zipfile(path):
        raise damaged(path, "it is no file of torch.save")


def with_pixels(folder: Path, size: PrismaticSize) -> PrismaticSize:
    """The size with means and spreads of pixels as `preprocessor_config.json` has them.

    The published file holds them twice, once rounded; the original reads the rounded ones.

    Raises:
        CheckpointError: the images are prepared in another way than ours.
    """
    path = folder / PREPROCESSOR_FILE
    if not path.is_file():
        return size
    content = read_json(path)
    strategy = content.get("image_resize_strategy", RESIZE)
    if strategy != RESIZE:
        raise CheckpointError(
            f"{path} asks for image_resize_strategy {strategy!r}, known is {RESIZE!r}"
        )
    rounded = content.get("tvf_normalize_params")
    if rounded and isinstance(rounded, list) and all(isinstance(each, dict) for each in rounded):
        means, stds = ([each.get(name) for each in rounded] for name in ("mean", "std"))
    elif rounded:
        raise damaged(path, f"its tvf_normalize_params are {rounded!r}")
    else:
        means, stds = (content.get(name) for name in ("means", "stds"))
    if not means and not stds:
        return size
    count = len(size.towers)
    if not all(_pixels(each, count) for each in (means, stds)) or min(map(min, stds)) <= 0:
        raise damaged(
            path,
            f"it must have three means and three positive stds for each of {count} vision "
            f"tower(s), got {means!r} and {stds!r}",
        )
    towers = (
        replace(tower, mean=tuple(mean), std=tuple(std))
        for tower, mean, std in zip(size.towers, means, stds, strict=True)
    )
    return replace(size, towers=tuple(towers))


def transformers_config(
    size: PrismaticSize, statistics: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """`config.json` as OpenVLA's classes for transformers read it, with our settings in it."""
    return {
        "architectures": ["OpenVLAForActionPrediction"],
        "model_type": "openvla",
        "image_resize_strategy": RESIZE,
        "image_sizes": [size.image_size] * len(size.towers),
        "llm_max_length": 2048,
        "n_action_bins": size.action_bins,
        "norm_stats": statistics,
        "pad_to_multiple_of": size.padding_rows,
        "pad_token_id": size.pad,
        "text_config": {
            "model_type": "llama",
            "hidden_size": size.width,
            "intermediate_size": size.mlp,
            "num_attention_heads": size.heads,
            "num_hidden_layers": size.depth,
            "num_key_value_heads": size.kv_heads,
            "pad_token_id": size.pad,
            "vocab_size": size.rows,
        },
        "timm_model_ids": [tower.timm_id for tower in size.towers],
        "timm_override_act_layers": [None] * len(size.towers),
        "use_fused_vision_backbone": len(size.towers) == 2,
        RLCORE: {"model": settings, "size": asdict(size)},
    }


def preprocessor_config(size: PrismaticSize) -> dict[str, Any]:
    """`preprocessor_config.json` as OpenVLA's image processor reads it."""
    return {
        "image_processor_type": "PrismaticImageProcessor",
        "image_resize_strategy": RESIZE,
        "input_sizes": [[3, size.image_size, size.image_size] for _ in size.towers],
        "interpolations": ["bicubic"] * len(size.towers),
        "means": [list(tower.mean) for tower in size.towers],
        "stds": [list(tower.std) for tower in size.towers],
        "use_fused_vision_backbone": len(size.towers) == 2,
    }


def _pixels(rows: object, count: int) -> bool:
    """Whether it is `count` lists of three finite numbers."""
    return isinstance(rows, list) and len(rows) == count and all(
        isinstance(row, list) and len(row) == 3
        and all(type(value) in (int, float) and isfinite(value) for value in row)
        for row in rows
    )  # fmt: skip


def _check_written_size(path: Path, size: PrismaticSize) -> None:
    """Compare with `config.json`, where it says something: our own record of the size, or what
    transformers must know of the Llama."""
    if not path.is_file():
        return
    content = read_json(path)
    ours, text = content.get(RLCORE), content.get("text_config")
    wanted: dict[str, Any] = {}
    written: dict[str, Any] = {}
    if isinstance(ours, dict) and isinstance(ours.get("size"), dict):
        written, wanted = ours["size"], _without_pixels(json.loads(json.dumps(asdict(size))))
        written = _without_pixels(written)
    elif isinstance(text, dict):
        known = transformers_config(size, {}, {})["text_config"]
        wanted = {name: value for name, value in known.items() if name in text}
        written = text
    # what transformers takes where nothing is written, which is what we build
    built = {**_LLAMA, "n_action_bins": size.action_bins, "pad_to_multiple_of": size.padding_rows}
    said = {**content, **(text if isinstance(text, dict) else {})}
    wanted |= {name: value for name, value in built.items() if name in said}
    written = {**written, **{name: said[name] for name in built if name in said}}
    different = [
        f"{name} {written.get(name)!r} (asked: {value!r})"
        for name, value in wanted.items()
        if written.get(name) != value
    ]
    if different:
        raise CheckpointError(
            f"{path.parent} was written with another network: {', '.join(different)}", hint=_FIT
        )


def _without_pixels(size: dict[str, Any]) -> dict[str, Any]:
    towers = size.get("towers")
    if not isinstance(towers, list):
        return size
    kept = [
        {name: value for name, value in tower.items() if name not in ("mean", "std")}
        for tower in towers
        if isinstance(tower, dict)
    ]
    return {**size, "towers": kept}
