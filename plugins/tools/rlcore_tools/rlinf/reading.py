"""Read one of RLinf's YAML files with its groups, composed as RLinf does it. Translates nothing.

A group's file (`env/NAME@env.train` of the defaults list) is searched for in the file's own folder,
in the folders that the user names, and where a checkout of RLinf has them.
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
"""Where a checkout keeps the groups."""
FOLDER_VARIABLE = "EMBODIED_PATH"
"""Of their scripts: the parent of that folder."""
MISSING = "???"


@dataclass(frozen=True)
class Leaf:
    """A value of the file.

    Attributes:
        value: with interpolations resolved; None where it does not resolve.
        raw: as written.
        problem: why it does not resolve; empty if it does.
    """

    value: Any
    raw: Any
    problem: str = ""


def read(file: Path, folders: Sequence[Path] = ()) -> DictConfig:
    """The composed file.

    Args:
        file: the YAML file.
        folders: where its groups may be, besides its own folder.

    Raises:
        ConfigError: a file that is missing or damaged, or does not compose.
    """
    content = read_mapping(file)
    places = [file.absolute().parent, *folders, *_usual(file)]
    _check_groups(file, content, places)
    searchpath = ",".join(f'"file://{place}"' for place in places[1:])
    try:
        with initialize_config_dir(str(places[0]), version_base="1.3"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*_self_")  # Hydra's order is theirs
            return compose(file.stem, overrides=[f"hydra.searchpath=[{searchpath}]"])
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{file} does not compose: {said}") from None


def leaves(node: DictConfig, whole: Collection[str], path: str = "") -> Iterator[tuple[str, Leaf]]:
    """All values by dotted path. A mapping that is one value (an empty one, or at a path of
    `whole`) is not taken apart."""
    for name in node:
        here = schema_tree.join(path, str(name))
        raw = node._get_node(name)
        written = OmegaConf.to_container(raw) if OmegaConf.is_config(raw) else raw._value()  # type: ignore[union-attr]
        try:
            value = MISSING if OmegaConf.is_missing(node, name) else node[name]
            if isinstance(value, DictConfig) and value and here not in whole:
                found = leaves(value, whole, here)
            else:
                plain = OmegaConf.is_config(value)
                value = OmegaConf.to_container(value, resolve=True) if plain else value
                found = iter([(here, Leaf(value, written))])
        except OmegaConfBaseException as error:
            found = iter([(here, Leaf(None, written, str(error).split("\n", 1)[0]))])
        yield from found


def _usual(file: Path) -> list[Path]:
    """The folders of groups that RLinf's scripts would use, if they are there."""
    named = os.environ.get(FOLDER_VARIABLE)
    found = [Path(named) / "config"] if named else []
    found += [parent / CHECKOUT for parent in file.absolute().parents]
    return [path for path in found if path.is_dir()]


def _check_groups(file: Path, content: dict[str, Any], places: Sequence[Path]) -> None:
    """Read the file of each group that is named, and those that these name.

    Raises:
        ConfigError: one that is missing or damaged, or a defaults list that is none.
    """
    for group, option in _included(file, content):
        name = f"{group}/{option}.yaml" if group else f"{option}.yaml"
        if group.split("/")[0] == "hydra":
            continue
        found = next((place / name for place in places if (place / name).is_file()), None)
        if found is None:
            options = {path.stem for place in places for path in (place / group).glob("*.yaml")}
            looked = ", ".join(str(place) for place in dict.fromkeys(places))
            raise ConfigError(
                f"{file}: its defaults name {group}/{option}, but there is no {name} in {looked}."
                f"{did_you_mean(option, options)}",
                hint="--config-dir FOLDER names the folder with the groups of that file: "
                f"{CHECKOUT} of a checkout",
            )
        if found != file.absolute():
            _check_groups(found, read_mapping(found), places)


def _included(file: Path, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """`(group, option)` of each entry of the defaults list, without packages."""
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
