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
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from rlcore.config import schema_tree
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
    read_mapping(file)  # refuses a file that is damaged or too large
    search_folders = [file.absolute().parent, *folders, *_usual_folders(file)]
    searchpath = ",".join(f'"file://{folder}"' for folder in search_folders[1:])
    try:
        with (
            initialize_config_dir(str(search_folders[0]), version_base="1.3"),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message=".*_self_")  # RLinf relies on Hydra's order
            return compose(file.stem, overrides=[f"hydra.searchpath=[{searchpath}]"])
    except MissingConfigException as error:
        missing = str(error.missing_cfg_file)
        group, _, option = missing.rpartition("/")
        options = {
            path.stem for folder in search_folders for path in (folder / group).glob("*.yaml")
        }
        raise ConfigError(
            f"{file}: its defaults name {missing}, but there is no {missing}.yaml in "
            f"{', '.join(map(str, dict.fromkeys(search_folders)))}."
            f"{did_you_mean(option, options)}",
            hint="--config-dir FOLDER names the folder with the groups of that file: "
            f"{CHECKOUT} of a checkout",
        ) from None
    except (HydraException, OmegaConfBaseException, ValueError, YAMLError) as error:
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
    checkout_folder = os.environ.get(FOLDER_VARIABLE)
    folders = [Path(checkout_folder) / "config"] if checkout_folder else []
    folders += [parent / CHECKOUT for parent in file.absolute().parents]
    return [folder for folder in folders if folder.is_dir()]
