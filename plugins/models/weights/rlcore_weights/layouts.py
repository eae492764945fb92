"""Find the weights of a checkpoint folder, in the layouts that trainers and hubs write.

model.safetensors                                  all in one file
model-0000x-of-0000y.safetensors                   in shards, with
model.safetensors.index.json                       {"weight_map": {name: file}}
full_weights.pt                                    all in one torch.save file; also below
model_state_dict/ and actor/model_state_dict/      as in RLinf's runs

A folder with more than one of them is refused, because other programs differ in which they load.

Only headers are read, without a tensor library. :func:`rlcore_weights.tensors.read_stored` reads
the tensors. Nothing here depends on a particular network.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, read_mapping
from rlcore.utils.text import abbreviate_list
from rlcore_weights.headers import TensorHeader, read_headers
from rlcore_weights.torch_files import place_of_weights, read_pickled_headers, resave

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
FULL_WEIGHTS = "full_weights.pt"
RUN_PLACES = ("", "model_state_dict", "actor/model_state_dict")
"""Folders, relative to the folder of a run's step, in which `full_weights.pt` may be."""

_WEIGHTS = re.compile(r"(pytorch_)?model.*\.(safetensors|bin)(\.index.*\.json)?")
"""Names of the files of a network, in any form."""
_DEEPEST = 3  # levels below a run's folder that are searched for checkpoints
_DISTRIBUTED = "dcp_checkpoint"
_NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args", "metadata")

_BIN = "pytorch_model.bin"
_BINS = "pytorch_model*.bin"

Place = tuple[Path, str]
"""A file, and the name of a tensor in it."""

# Name levels that wrappers add: torch.compile, FSDP and activation checkpointing at any level, DDP
# only at the start.
_WRAPPERS = re.compile(
    r"^module\.|(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
_PEFT = "base_model.model."  # what peft's wrapper adds to names
_LOW_RANK = re.compile(r"(?P<module>.*)\.lora_(?P<part>[AB])(?:\.(?P<adapter>\w+))?\.weight")


@dataclass(frozen=True)
class LowRank:
    """A low-rank adapter of a weight W, stored with it but not merged: W + alpha / rank B A.

    Its alpha is not stored.

    Attributes:
        rank: number of rows of A and of columns of B.
        a, b: places of A and B.
    """

    rank: int
    a: Place
    b: Place


@dataclass(frozen=True)
class StoredWeights:
    """The weights of a checkpoint, by the network's own names: without levels that wrappers add.

    Attributes:
        headers: header of each weight.
        places: file of each weight, and its name there.
        adapters: adapters of the weights that have an unmerged one.
        peft: whether the weights were saved from a model that peft had wrapped.
    """

    headers: Mapping[str, TensorHeader]
    places: Mapping[str, Place]
    adapters: Mapping[str, LowRank] = field(default_factory=dict)
    peft: bool = False


def has_weights(folder: Path) -> bool:
    """Return whether a folder holds weights in a layout of the module docstring."""
    return weights_file(folder) is not None


def weights_file(folder: Path) -> Path | None:
    """Return the index of the shards, or else the single file; None if there is neither.

    The file's contents are not checked.
    """
    files = [folder / INDEX_FILE, folder / SINGLE_FILE]
    files += [folder / place / FULL_WEIGHTS for place in RUN_PLACES]
    return next((file for file in files if file.exists()), None)


def stored_weights(folder: Path, *, hint: str) -> StoredWeights:
    """Return the headers and places of the weights in a checkpoint folder.

    Args:
        hint: hint of the error if the folder holds neither weights nor files that can be converted.

    Raises:
        CheckpointError: the folder holds no weights, or more than one set of them; a shard is
            missing or does not match the index; a file is damaged or an unsafe pickle; or there are
            adapter files and it is unknown whether they are merged into the weights.
    """
    path = weights_file(folder)
    if path is None:
        raise CheckpointError(
            f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}, nor {FULL_WEIGHTS} of a run",
            hint=_conversion_hint(folder) or hint,
        )
    index = _index(path) if path.name == INDEX_FILE else None
    _refuse_others(folder, {path, *(folder / file for file in (index or {}).values())})
    stored = stored_file(path) if index is None else _sharded(path, index)
    adapters = sorted(file.name for file in folder.glob("adapter_*") if file.is_file())
    if adapters and not stored.adapters:
        raise CheckpointError(
            f"{folder} holds weights in {path.name}, and adapters in {abbreviate_list(adapters)}: "
            "no file states whether these are merged into the weights already",
            hint="if they are, move the files of the adapters away; if not, merge them where they "
            "were trained (in peft: model.merge_and_unload().save_pretrained(FOLDER))",
        )
    return stored


def _refuse_others(folder: Path, used: Set[Path]) -> None:
    """Check that a folder holds no weight files besides those that are used.

    Raises:
        CheckpointError: it does; it lists both sets.
    """
    candidates = {path for path in folder.glob("*") if _WEIGHTS.fullmatch(path.name)}
    candidates |= {folder / place / FULL_WEIGHTS for place in RUN_PLACES}
    others = [path for path in candidates - used if path.is_file()]
    if others:
        chosen = _names_in(folder, [path for path in used if path.is_file()])
        raise CheckpointError(
            f"{folder} holds more than one set of weights: {chosen}; and besides "
            f"{_names_in(folder, others)}",
            hint="move away the files that you do not mean; an index belongs to its shards",
        )


def _names_in(folder: Path, paths: Iterable[Path]) -> str:
    return abbreviate_list(sorted(str(path.relative_to(folder)) for path in paths))


def full_scale(rank: int) -> float:
    """Return alpha / rank for alpha = rank, the setting of RLinf's trainer and of rlcore: 1."""
    return 1.0


def file_headers(path: Path) -> dict[str, TensorHeader]:
    """Read the headers of a file by name: of safetensors if its suffix says so, else torch.save."""
    return read_headers(path) if path.suffix == ".safetensors" else read_pickled_headers(path)


def _conversion_hint(folder: Path) -> str | None:
    """Return how to convert or find weights in another format or place; None if there are none.

    Raises:
        CheckpointError: they are in an unsafe pickle.
    """
    bins = sorted(folder.glob(_BINS))
    if bins:
        if folder / _BIN in bins:
            _refuse_others(folder, {folder / _BIN})
        below, *_ = (place_of_weights(file) for file in bins)  # checks every file
        command = resave(folder, folder / SINGLE_FILE, pattern=_BINS, below=below)
        away = shlex.quote(str(folder / "converted"))
        pickled = f"{shlex.quote(str(folder))}/{_BINS}*"  # with their index
        return f"convert its {bins[0].name}: {command} && mkdir {away} && mv {pickled} {away}"
    distributed = _distributed(folder)
    if distributed is not None:
        target = distributed.parent / "model_state_dict" / FULL_WEIGHTS
        next_step = ""
        if distributed == folder:
            next_step = f"; then set actor.model.model_path={folder.parent}"
        return (
            "convert its distributed checkpoint where RLinf is installed: python -m "
            "rlinf.utils.ckpt_convertor.fsdp_convertor.convert_dcp_to_pt "
            f"--dcp_path {distributed} --output_path {target}{next_step}"
        )
    last = _last_below(folder)
    if last is not None:
        return f"it is a folder of checkpoints: set actor.model.model_path={last}"
    if any(folder.glob("*-of-*.safetensors")):
        return f"its shards lack their {INDEX_FILE}: copy or download it too"
    others = [file for file in sorted(folder.glob("*")) if file.suffix in (".pt", ".pth", ".bin")]
    others = [file for file in others if not file.stem.startswith(_NO_WEIGHTS)]
    if len(others) == 1:
        return f"if {others[0].name} has the weights, convert it: " + resave(
            others[0], folder / SINGLE_FILE, below=place_of_weights(others[0])
        )
    return None


def _last_below(folder: Path) -> Path | None:
    """Return the checkpoint folder with the largest number in its path below a run's folder.

    Trainers name them `checkpoints/global_step_10`, `20000`, `checkpoints/020000/pretrained_model`.
    """
    for depth in range(1, _DEEPEST + 1):
        below = [place for place in folder.glob("/".join("*" * depth)) if has_weights(place)]
        if below:
            return max(below, key=lambda place: _numbers(place.relative_to(folder)))
    return None


def _numbers(path: Path) -> tuple[list[int], str]:
    """Return a sort key: the numbers in a path, then the path itself."""
    return [int(number) for number in re.findall(r"\d+", str(path))], str(path)


def _distributed(folder: Path) -> Path | None:
    """Return the folder of torch's distributed checkpoint: below a run's folder, or the folder."""
    for place in (folder / _DISTRIBUTED, folder / "actor" / _DISTRIBUTED):
        if place.is_dir():
            return place
    return folder if any(folder.glob("*.distcp")) else None


def stored_file(path: Path) -> StoredWeights:
    """Return the headers and places of the weights in one file.

    Raises:
        CheckpointError: it is missing, damaged or an unsafe pickle.
    """
    headers = file_headers(path)
    return _plain(path, headers, {name: (path, name) for name in headers})


def _plain(
    path: Path, headers: Mapping[str, TensorHeader], places: Mapping[str, Place]
) -> StoredWeights:
    """Rename weights to the network's own names, and pair unmerged adapters with their weights.

    Args:
        path: for error messages.
        headers: headers by the names in the file or shards.
        places: places by the names in the file or shards.

    Raises:
        CheckpointError: two tensors are the same weight, or an adapter doesn't fit its weight.
    """
    names: dict[str, str] = {}  # the network's -> the file's
    parts: dict[str, dict[str, str]] = {}  # weight -> {"A": the file's name, "B": ...}
    for name in headers:
        own = _own_name(name)
        if ".original_module." in own:  # the original of a copy that peft's modules_to_save trained
            continue
        group = names
        key = own
        if adapter := _LOW_RANK.fullmatch(own):
            group = parts.setdefault(f"{adapter['module']}.weight", {})
            key = adapter["part"]
        if key in group:
            raise damaged_error(path, f"{group[key]} and {name} are the same weight")
        group[key] = name
    own_headers = {own: headers[name] for own, name in names.items()}
    adapters = {}
    for weight, part in parts.items():
        adapter_of_weight = _low_rank(own_headers.get(weight), part, headers, places)
        if adapter_of_weight is None:
            raise damaged_error(
                path, f"the adapter of {weight} does not fit it: {sorted(part.values())}"
            )
        adapters[weight] = adapter_of_weight
    return StoredWeights(
        own_headers,
        {own: places[name] for own, name in names.items()},
        adapters,
        peft=any(_PEFT in name for name in headers),
    )


def _low_rank(
    weight: TensorHeader | None,
    part: Mapping[str, str],
    headers: Mapping[str, TensorHeader],
    places: Mapping[str, Place],
) -> LowRank | None:
    """Return the adapter of a weight; None if it lacks A or B, or its shapes don't fit."""
    if weight is None or part.keys() != {"A", "B"} or len(weight.shape) < 2:
        return None
    a, b = (headers[part[letter]].shape for letter in "AB")
    if a[1:] != weight.shape[1:] or b[:2] != (weight.shape[0], a[0]) or set(b[2:]) - {1}:
        return None
    return LowRank(a[0], places[part["A"]], places[part["B"]])


def _own_name(name: str) -> str:
    """Return the name of a tensor without the levels that wrappers and peft add."""
    while (plain := _WRAPPERS.sub("", name)) != name:
        name = plain
    name = name.replace(_PEFT, "").replace(".base_layer.", ".")
    return name.replace(".modules_to_save.default.", ".")


def _index(path: Path) -> dict[str, str]:
    """Read an index: the name of the shard that holds each tensor."""
    index = read_mapping(path).get("weight_map")
    if not isinstance(index, dict) or not all(
        isinstance(file, str) and Path(file).name == file != "" for file in index.values()
    ):  # no path leads out of the folder
        raise damaged_error(path, "it has no weight_map from tensors to files")
    return index


def _sharded(path: Path, index: Mapping[str, str]) -> StoredWeights:
    """Read the headers of the shards of an index.

    Raises:
        CheckpointError: a shard is missing or damaged, or holds other tensors than the index says.
    """
    folder = path.parent
    indexed: dict[str, set[str]] = {}
    for tensor, file in index.items():
        indexed.setdefault(file, set()).add(tensor)
    files = sorted(indexed)
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} lacks {len(missing)} of the {len(files)} shards in its index: "
            f"{', '.join(missing)}",
            hint="copy or download them again",
        )
    headers: dict[str, TensorHeader] = {}
    for name in files:
        shard = read_headers(folder / name)
        if shard.keys() != indexed[name]:
            different = sorted(indexed[name] ^ shard.keys())
            raise damaged_error(folder / name, f"it does not match the index for {different[0]}")
        headers |= shard
    return _plain(path, headers, {name: (folder / index[name], name) for name in headers})
