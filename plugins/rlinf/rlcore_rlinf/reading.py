"""Read a YAML file of RLinf with its groups, composed as RLinf composes it.

A group's file (`env/NAME@env.train` of the defaults list) is searched for in the file's own folder,
in the folders that the user names, and in the usual folder of a checkout of RLinf.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config import schema_tree
from rlcore.config.choices import DEFAULTS, SELF
from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import ConfigError, did_you_mean

CHECKOUT = Path("examples/embodiment/config")
"""Folder of the groups in a checkout."""
FOLDER_VARIABLE = "EMBODIED_PATH"
"""Environment variable of RLinf's scripts: the parent of that folder."""
MISSING = "???"


@dataclass(frozen=True)
class Leaf:
    """A value of the file.

    Attributes:
        value: the value with interpolations resolved; None if one does not resolve.
        raw: the value as written.
        problem: why an interpolation does not resolve; empty if all do.
    """

    value: Any
    raw: Any
    problem: str = ""


def read(file: Path, folders: Sequence[Path] = ()) -> DictConfig:
    """Compose a file.

    Args:
        file: the YAML file.
        folders: further folders that may contain its groups, besides its own folder.

    Raises:
        ConfigError: a file is missing or damaged, or does not compose.
    """
    content = read_mapping(file)
    searched = [file.absolute().parent, *folders, *_usual_folders(file)]
    _check_groups(file, content, searched)
    searchpath = ",".join(f'"file://{folder}"' for folder in searched[1:])
    try:
        with initialize_config_dir(str(searched[0]), version_base="1.3"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*_self_")  # RLinf relies on Hydra's order
            return compose(file.stem, overrides=[f"hydra.searchpath=[{searchpath}]"])
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file} does not compose: {reason}") from None


def leaves(node: DictConfig, whole: Collection[str], path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield all values by dotted path.

    Args:
        node: the composed file, or a section of it.
        whole: paths whose mapping is one value; so is an empty mapping.
        path: path of `node`.
    """
    for name in node:
        key = schema_tree.join(path, str(name))
        child = node._get_node(name)
        raw = OmegaConf.to_container(child) if OmegaConf.is_config(child) else child._value()  # type: ignore[union-attr]
        try:
            value = MISSING if OmegaConf.is_missing(node, name) else node[name]
            if isinstance(value, DictConfig) and value and key not in whole:
                yield from leaves(value, whole, key)
                continue
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True)
            leaf = Leaf(value, raw)
        except OmegaConfBaseException as error:
            leaf = Leaf(None, raw, str(error).split("\n", 1)[0])
        yield key, leaf


def _usual_folders(file: Path) -> list[Path]:
    """Return the existing folders of groups that RLinf's scripts would use."""
    named = os.environ.get(FOLDER_VARIABLE)
    folders = [Path(named) / "config"] if named else []
    folders += [parent / CHECKOUT for parent in file.absolute().parents]
    return [folder for folder in folders if folder.is_dir()]


def _check_groups(file: Path, content: dict[str, Any], folders: Sequence[Path]) -> None:
    """Check the file of each group that the defaults list names, and recursively those it names.

    Raises:
        ConfigError: a file is missing or damaged, or its `defaults` is no defaults list.
    """
    for group, option in _included(file, content):
        name = f"{group}/{option}.yaml" if group else f"{option}.yaml"
        if group.split("/")[0] == "hydra":
            continue
        candidates = (folder / name for folder in folders)
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            options = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
            raise ConfigError(
                f"{file}: its defaults name {group}/{option}, but there is no {name} in "
                f"{', '.join(map(str, dict.fromkeys(folders)))}.{did_you_mean(option, options)}",
                hint="--config-dir FOLDER names the folder with the groups of that file: "
                f"{CHECKOUT} of a checkout",
            )
        if found != file.absolute():
            _check_groups(found, read_mapping(found), folders)


def _included(file: Path, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield `(group, option)` of each entry of the defaults list, without packages."""
    entries = content.get(DEFAULTS, [])
    if not isinstance(entries, list):
        raise ConfigError(f"{file}: defaults must be a list, got {entries!r}")
    for entry in entries:
        if isinstance(entry, str):
            if entry != SELF:
                group, _, option = entry.partition("@")[0].rpartition("/")
                yield group.lstrip("/"), option
        elif isinstance(entry, dict) and len(entry) == 1:
            ((key, options),) = entry.items()
            words = str(key).split()
            group = words[-1].partition("@")[0].lstrip("/")
            for option in options if isinstance(options, list) else [options]:
                if option is not None and "optional" not in words:
                    yield group, str(option)
        else:
            raise ConfigError(
                f"{file}: an entry of defaults must be a name or a group, got {entry!r}"
            )
