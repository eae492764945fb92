"""Find the folders of a checkpoint: its own, the network's, and that of adapters. No torch.

actor.model.model_path                        a network, or adapters that name their network
actor.model.model_path and lora_path          a network, and adapters for it, whatever they name

OpenVLA-OFT's trainer saves unmerged adapters in `lora_adapter/`. If the folder above also holds a
network, the adapters are already merged into it. A network and adapters in the same folder are
refused: they may be merged or not, and merging them twice would silently change the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlcore_weights.layouts import has_weights

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files import hub
from rlcore.files.damaged_files import read_mapping
from rlcore_prismatic.adapters import ADAPTERS_CONFIG, has_adapters
from rlcore_prismatic.settings import PrismaticModelConfig

TRAINERS_ADAPTERS = "lora_adapter"  # where OpenVLA-OFT's trainer and RLinf's converter put them


@dataclass(frozen=True)
class Folders:
    """The folders of a checkpoint.

    Attributes:
        own: the folder of `lora_path`, or else of `model_path`.
        base: the folder of the network.
        adapters: the folder of the low-rank adapters; None without any.
    """

    own: Path
    base: Path
    adapters: Path | None

    @property
    def places(self) -> tuple[Path, ...]:
        """The folders that are searched for files other than weights, in this order."""
        return tuple(dict.fromkeys((self.own, self.base)))

    def find(self, name: str) -> Path:
        """Return the path of a file: in the checkpoint's own folder if it exists there.

        Otherwise it is the path in the network's folder, whether or not it exists.
        """
        return next(
            (place / name for place in self.places if (place / name).is_file()), self.base / name
        )


def find_folders(config: PrismaticModelConfig) -> Folders | None:
    """Return the folders that the settings name; None if the model starts from random weights.

    Raises:
        ConfigError: `lora_path` without `model_path`.
        CheckpointError: a folder does not exist, or holds neither a network nor adapters.
    """
    if config.model_path is None:
        if config.lora_path is not None:
            raise ConfigError(
                "actor.model.lora_path needs actor.model.model_path: the folder of the model that "
                "the adapters adapt",
                hint=f"set actor.model.model_path=BASE; or actor.model.model_path="
                f"{config.lora_path} alone if its {ADAPTERS_CONFIG} names that folder",
            )
        return None
    folder = _existing("model_path", config.model_path)
    if config.lora_path is None:
        adapters = _adapters_of(folder)
        return Folders(folder, _base_of(folder, adapters), adapters)
    own = _existing("lora_path", config.lora_path)
    adapters = _adapters_of(own)
    if adapters is None:
        raise CheckpointError(
            f"actor.model.lora_path {str(own)!r} holds no adapters",
            hint=f"give the folder with {ADAPTERS_CONFIG}",
        )
    if _adapters_of(folder) is not None:
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} holds adapters itself, so the "
            f"adapters in actor.model.lora_path {str(own)!r} are for another model",
            hint="set actor.model.model_path to the folder of the model that these adapt",
        )
    return Folders(own, folder, adapters)


def _existing(key: str, path: str) -> Path:
    if not Path(path).is_dir():
        raise CheckpointError(
            f"actor.model.{key} {path!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights"
            if key == "model_path"
            else f"give the folder with {ADAPTERS_CONFIG}, or null",
        )
    return Path(path)


def _adapters_of(folder: Path) -> Path | None:
    """Return the folder of a checkpoint's adapters; None if there are none, or they are merged."""
    if has_adapters(folder):
        return folder
    inner = folder / TRAINERS_ADAPTERS
    return inner if has_adapters(inner) and not has_weights(folder) else None


def _base_of(folder: Path, adapters: Path | None) -> Path:
    """Return the folder of the network: `folder` itself, or the one that its adapters name.

    That name may be a path, a path relative to the adapters, or a model in Hugging Face's cache.

    Raises:
        CheckpointError: there is no such folder, or `folder` holds both a network and adapters.
    """
    if adapters is None:
        return folder
    if has_weights(folder):
        raise CheckpointError(
            f"{folder} holds a network and adapters, and no file states whether these are merged "
            "into it already",
            hint=f"if they are, move {ADAPTERS_CONFIG} and the adapters away; if not, move them to "
            "another folder and set actor.model.lora_path to it",
        )
    content = read_mapping(adapters / ADAPTERS_CONFIG)
    base = content.get("base_model_name_or_path")
    revision = content.get("revision")
    if not isinstance(base, str) or not base:
        raise CheckpointError(
            f"{adapters / ADAPTERS_CONFIG} does not name the model that the adapters adapt",
            hint=f"set actor.model.lora_path={folder}, and actor.model.model_path to the folder of "
            "that model",
        )
    cached = hub.cached(base, revision if isinstance(revision, str) else None)
    for place in (Path(base), adapters / base, *([cached] if cached else [])):
        if place.is_dir():
            return place
    command = "set"
    if hub.is_name(base):
        option = f" --revision {revision}" if isinstance(revision, str) else ""
        command = f"download it: hf download {base}{option} --local-dir BASE, then set"
    raise CheckpointError(
        f"{folder} holds adapters for the model in {base!r}, which is not a folder here"
        + (", nor a model in the cache of Hugging Face" if hub.is_name(base) else ""),
        hint=f"{command} actor.model.model_path=BASE actor.model.lora_path={folder}, where BASE is "
        "the folder of that model",
    )
