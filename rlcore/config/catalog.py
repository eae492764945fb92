"""List the options of each configuration group, and the file of each. Light: no Hydra.

env, model, algorithm   an option is a file `GROUP/NAME.yaml` of a plugin, of configs/ or of
                        the user's own folder, or a registered component without a file
env/train, env/eval     the options of env, and files of one side, `env/train/NAME.yaml`
experiment, ...         any other folder of those places
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

from rlcore.contracts.component import Kind
from rlcore.contracts.errors import ConfigError, PluginError, choices_message, warn
from rlcore.files.core_configs import core_configs
from rlcore.plugins.registry import Registry

SIDES = ("train", "eval")
COMPONENT_GROUPS: dict[str, Kind] = {"env": "env", "model": "model", "algorithm": "algorithm"}
TYPE_KEYS: dict[str, str] = {"env": "env_type", "model": "model_type", "algorithm": "name"}
"""The key of a component's section that holds its registered name."""
EXPERIMENT = "experiment"
"""The group of recipes."""
ONLY_EVAL = "_eval"
"""Suffix of a recipe's name that means: only evaluate the recipe."""
BY_RECIPE = f"{EXPERIMENT}="
"""Prefix of an override that chooses a recipe."""

YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Root:
    """A folder that contains groups.

    Attributes:
        owner: distribution of the plugin; "" for configs/ and the user's folders.
        folder: its path.
        location: the same as Hydra's search path takes it: a path or `pkg://package.module`.
    """

    owner: str
    folder: Path
    location: str


class Catalog:
    """All groups and options: of plugins, of configs/ and of the user's folders.

    Attributes:
        registry: the plugins.
        roots: folders with groups; the first one that has an option's file wins.
    """

    def __init__(self, registry: Registry, config_dirs: Sequence[str | Path] = ()) -> None:
        self.registry = registry
        own = [_user_root(folder) for folder in config_dirs]
        shipped = Root("", core_configs(), str(core_configs()))
        plugins = [_plugin_root(owner, path) for owner, path in registry.config_paths]
        roots = [*own, shipped, *filter(None, plugins)]
        # groups may also be folders in the folder of recipes: experiment/env/train/NAME.yaml
        self.roots = [nested for root in roots for nested in (*_beside_recipes(root), root)]
        self._known: dict[str, dict[str, list[tuple[Root, Path]]]] = {}

    @cached_property
    def groups(self) -> frozenset[str]:
        """Return all groups, e.g. "env", "env/train", "experiment"."""
        sides = {f"env/{side}" for side in SIDES}
        roots = [root.folder for root in self.roots if root.folder.is_dir()]
        folders = {entry.name for root in roots for entry in root.iterdir() if entry.is_dir()}
        return frozenset({*COMPONENT_GROUPS, *sides, *folders} - {"__pycache__"})

    def has_group(self, group: str) -> bool:
        """Check whether a group exists, also one in a folder inside the folder of another."""
        folders = (root.folder / group for root in self.roots)
        return group in self.groups or any(folder.is_dir() for folder in folders)

    def options(self, group: str) -> list[str]:
        """Return the sorted names that may follow `group=`."""
        top = group.split("/")[0]
        names = set(self._files(group))
        if group == "env":  # names with a file for each side
            names |= set.intersection(*(set(self._files(f"env/{side}")) for side in SIDES))
        if top in COMPONENT_GROUPS:
            names |= set(self.registry.names(COMPONENT_GROUPS[top]))
        return sorted(names)

    def file(self, group: str, name: str) -> Path | None:
        """Return the file of an option; None if it has none.

        Raises:
            PluginError: several plugins have a file of that name, and configs/ and the user none.
        """
        places = self._files(group).get(name, [])
        owners = sorted({root.owner for root, _ in places if root.owner})
        if len(owners) > 1 and places[0][0].owner:  # files of the user and of configs/ win
            raise PluginError(f"{group.split('/')[0]}={name} is claimed by {' and '.join(owners)}")
        return places[0][1] if places else None

    def beside(self, group: str, name: str, file: str) -> Path | None:
        """Return a file of the root folder that holds an option; None if either is absent.

        Args:
            file: path relative to the root folder, which is the parent of the group's folder.
        """
        roots = [root for root, _ in self._files(group).get(name, [])]
        path = roots[0].folder.joinpath(file) if roots else None
        return path if path is not None and path.is_file() else None

    def option(self, group: str, name: str) -> str | None:
        """Return the option with this name, or the only one that differs from it just in case.

        None if there is no such option, or if several differ just in case.
        """
        options = self.options(group)
        near = [option for option in options if option.lower() == name.lower()]
        return name if name in options else near[0] if len(near) == 1 else None

    def recipe(self, name: str) -> tuple[str | None, bool]:
        """Return the recipe with this name, and whether it is only evaluated.

        `NAME_eval` means to only evaluate NAME, unless there is a recipe named `NAME_eval`. The
        recipe is None if there is none.
        """
        option = self.option(EXPERIMENT, name)
        if option is None and name.lower().endswith(ONLY_EVAL):
            base = self.option(EXPERIMENT, name[: -len(ONLY_EVAL)])
            return base, base is not None
        return option, False

    def unknown_option(self, group: str, name: str) -> ConfigError | PluginError:
        """Return the error for `group=name` when that option does not exist."""
        top = group.split("/")[0]
        choices = self.options(group)
        if top in COMPONENT_GROUPS:
            return self.registry.not_found(COMPONENT_GROUPS[top], name, choices)
        folder = ""
        if group == EXPERIMENT and is_folder(name):
            folder = (
                f"rlcore resume {name} goes on with the run in this folder, rlcore eval {name} "
                "evaluates it (in Python rlcore.resume, rlcore.evaluate); "
            )
        return ConfigError(
            f"there is no {group} {name!r}{choices_message(name, choices)}"
            f"{self.registry.load_failures()}",
            hint=folder
            + f"rlcore train --help {group}"
            + (f"; a key is set by {name}=VALUE" if re.fullmatch(r"\w+(\.\w+)+", name) else ""),
        )

    def _files(self, group: str) -> dict[str, list[tuple[Root, Path]]]:
        """Return (root, file) pairs by option, in the order of precedence.

        Within a root, a file of `env/train` precedes one of `env` in that group; likewise for eval.
        """
        if group in self._known:
            return self._known[group]
        places: dict[str, list[tuple[Root, Path]]] = {}
        top = group.split("/")[0]
        folders = dict.fromkeys((group, top) if top in COMPONENT_GROUPS else (group,))
        for root in self.roots:
            for name in folders:
                folder = root.folder.joinpath(name)
                for entry in folder.iterdir() if folder.is_dir() else ():
                    if entry.name.endswith(".yaml"):
                        places.setdefault(entry.name.removesuffix(".yaml"), []).append(
                            (root, entry)
                        )
        self._known[group] = places  # cached only if all folders could be read
        return places


def _user_root(folder: str | Path) -> Root:
    path = Path(folder).expanduser().resolve()
    if not str(folder).strip() or not path.is_dir():
        problem = "is not a folder" if path.exists() and str(folder).strip() else "does not exist"
        raise ConfigError(f"the config folder {str(folder)!r} {problem}")
    return Root("", path, str(path))


def _beside_recipes(root: Root) -> list[Root]:
    """Return a root's folder of recipes as a root, if that folder contains folders; else none."""
    folder = root.folder / EXPERIMENT
    holds = folder.is_dir() and any(entry.is_dir() for entry in folder.iterdir())
    return [Root(root.owner, folder, str(folder))] if holds else []


def _plugin_root(owner: str, location: str) -> Root | None:
    """Return the root at a plugin's config path, which is a folder or `pkg://package.module`.

    None, with a warning, if the package can't be imported.
    """
    scheme, _, name = location.rpartition("://")
    if scheme == "pkg":
        try:
            return Root(owner, Path(import_module(name).__path__[0]), location)
        except Exception as error:  # a faulty plugin must not end the command
            warn(f"{owner}: its config path {location} is left out: {error}")
            return None
    return Root(owner, Path(name), location)


def named_recipe(word: str) -> tuple[str, list[str]]:
    """Return the name of a recipe, and the config folders to search for it.

    Args:
        word: the recipe's name, or its file DIR/experiment/NAME.yaml. If there is no such file,
            only NAME counts: a shipped recipe may be given by the path that it has elsewhere.

    Returns:
        The name; and `[DIR]` for a file, except for a file of configs/, or an empty list.

    Raises:
        ConfigError: the file is not in a folder named experiment.
    """
    path = Path(word)
    if path.suffix not in YAML:
        return word, []
    if not path.is_file():
        return path.stem, []
    folder = path.resolve().parent
    if folder.name != EXPERIMENT:
        raise ConfigError(
            f"the file of a recipe must be in a folder {EXPERIMENT}, got {word}",
            hint=f"mkdir {EXPERIMENT}, put it there, and name it {EXPERIMENT}/{path.name}",
        )
    shipped = folder.parent == core_configs().resolve()
    return path.stem, [] if shipped else [str(folder.parent)]


def is_override(word: str) -> bool:
    """Check whether a word sets or deletes a key or a group; flags (`-...`) do not."""
    return word[:1] != "-" and ("=" in word or word[:1] == "~")


def is_folder(word: str) -> bool:
    """Check whether a folder of that name exists; False for a text that can't be a path."""
    try:
        return bool(word) and Path(word).is_dir()
    except (OSError, ValueError):  # too long, or contains a NUL character
        return False
