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
from rlcore.contracts.errors import ConfigError, PluginError, choosing, warn
from rlcore.files.core_configs import core_configs
from rlcore.plugins.registry import Registry

SIDES = ("train", "eval")
COMPONENT_GROUPS: dict[str, Kind] = {"env": "env", "model": "model", "algorithm": "algorithm"}
TYPE_KEYS: dict[str, str] = {"env": "env_type", "model": "model_type", "algorithm": "name"}
"""The key of a component's section that holds its registered name."""
EXPERIMENT = "experiment"
"""The group of recipes."""
ONLY_EVAL = "_eval"
"""How the name of a recipe ends that is another one, evaluated only."""
BY_RECIPE = f"{EXPERIMENT}="
"""How a word that chooses a recipe begins."""

YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Root:
    """A place that holds groups: `owner` is a distribution, or "" for configs/ and the user's."""

    owner: str
    folder: Path
    location: str


class Catalog:
    """All groups and options of a registry, of configs/ and of the user's folders."""

    def __init__(self, registry: Registry, config_dirs: Sequence[str | Path] = ()) -> None:
        self.registry = registry
        own = [_user_root(folder) for folder in config_dirs]
        shipped = Root("", core_configs(), str(core_configs()))
        plugins = [_plugin_root(owner, path) for owner, path in registry.config_paths]
        roots = [*own, shipped, *filter(None, plugins)]
        # readers put groups beside the recipes too: config/env/train/NAME.yaml
        self.roots = [each for root in roots for each in (*_beside_recipes(root), root)]
        self._known: dict[str, dict[str, list[tuple[Root, Path]]]] = {}

    @cached_property
    def groups(self) -> frozenset[str]:
        """Every group, e.g. "env", "env/train", "experiment"."""
        sides = {f"env/{side}" for side in SIDES}
        roots = [root.folder for root in self.roots if root.folder.is_dir()]
        folders = {entry.name for root in roots for entry in root.iterdir() if entry.is_dir()}
        return frozenset({*COMPONENT_GROUPS, *sides, *folders} - {"__pycache__"})

    def options(self, group: str) -> list[str]:
        """Sorted names that may be written behind `group=`."""
        top = group.split("/")[0]
        names = set(self._files(group))
        if group == "env":  # what both sides have of their own
            names |= set.intersection(*(set(self._files(f"env/{side}")) for side in SIDES))
        if top in COMPONENT_GROUPS:
            names |= set(self.registry.names(COMPONENT_GROUPS[top]))
        return sorted(names)

    def file(self, group: str, name: str) -> Path | None:
        """The file of an option; None for a component that has none.

        Raises:
            PluginError: two plugins bring a file of that name.
        """
        found = self._files(group).get(name, [])
        owners = sorted({root.owner for root, _ in found if root.owner})
        if len(owners) > 1 and found[0][0].owner:  # a file of the user's or of configs/ goes first
            raise PluginError(f"{group.split('/')[0]}={name} is claimed by {' and '.join(owners)}")
        return found[0][1] if found else None

    def beside(self, group: str, name: str, file: str) -> Path | None:
        """A file beside the folder of the group that holds an option; None if either is absent."""
        roots = [root for root, _ in self._files(group).get(name, [])]
        found = roots[0].folder.joinpath(file) if roots else None
        return found if found is not None and found.is_file() else None

    def option(self, group: str, name: str) -> str | None:
        """The option that is meant by a name, whatever its upper and lower case; None if there is
        none, or more than one."""
        options = self.options(group)
        near = [option for option in options if option.lower() == name.lower()]
        return name if name in options else near[0] if len(near) == 1 else None

    def recipe(self, name: str) -> tuple[str | None, bool]:
        """The recipe that is meant by a name, and whether it is only to be evaluated: as
        `NAME_eval`, where that is no recipe of its own."""
        found = self.option(EXPERIMENT, name)
        if found is None and name.lower().endswith(ONLY_EVAL):
            base = self.option(EXPERIMENT, name[: -len(ONLY_EVAL)])
            return base, base is not None
        return found, False

    def unknown_option(self, group: str, name: str) -> ConfigError | PluginError:
        """The error for `group=name` when that option does not exist."""
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
            f"there is no {group} {name!r}{choosing(name, choices)}{self.registry.not_loaded()}",
            hint=folder
            + f"rlcore train --help {group}"
            + (f"; a key is set by {name}=VALUE" if re.fullmatch(r"\w+(\.\w+)+", name) else ""),
        )

    def _files(self, group: str) -> dict[str, list[tuple[Root, Path]]]:
        """By option; a file of one side goes before that of both."""
        if group in self._known:
            return self._known[group]
        found: dict[str, list[tuple[Root, Path]]] = {}
        for root in self.roots:
            for name in dict.fromkeys((group, group.split("/")[0])):
                folder = root.folder.joinpath(name)
                for entry in folder.iterdir() if folder.is_dir() else ():
                    if entry.name.endswith(".yaml"):
                        found.setdefault(entry.name.removesuffix(".yaml"), []).append((root, entry))
        self._known[group] = found  # whole, or not at all where a folder can't be read
        return found


def _user_root(folder: str | Path) -> Root:
    path = Path(folder).expanduser().resolve()
    if not str(folder).strip() or not path.is_dir():
        problem = "is not a folder" if path.exists() and str(folder).strip() else "does not exist"
        raise ConfigError(f"the config folder {str(folder)!r} {problem}")
    return Root("", path, str(path))


def _beside_recipes(root: Root) -> list[Root]:
    """The folder of a place's recipes as a place of groups itself, where it holds folders."""
    folder = root.folder / EXPERIMENT
    holds = folder.is_dir() and any(entry.is_dir() for entry in folder.iterdir())
    return [Root(root.owner, folder, str(folder))] if holds else []


def _plugin_root(owner: str, location: str) -> Root | None:
    """A plugin's config path: `pkg://package.module` or a folder; None where it can't be read."""
    scheme, _, name = location.rpartition("://")
    if scheme == "pkg":
        try:
            return Root(owner, Path(import_module(name).__path__[0]), location)
        except Exception as error:  # a plugin may fail in any way: it takes no command down
            warn(f"{owner}: its config path {location} is left out: {error}")
            return None
    return Root(owner, Path(name), location)


def named_recipe(word: str) -> tuple[str, list[str]]:
    """The name of the recipe that is named first, and the folder of groups it is in if it is given
    by its file, DIR/experiment/NAME.yaml. What is no file may be one of ours, at a place where
    others have them: the name counts.

    Raises:
        ConfigError: it is a file that lies elsewhere.
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
    """Check whether a word sets or deletes something; flags do not."""
    return word[:1] != "-" and ("=" in word or word[:1] == "~")


def is_folder(word: str) -> bool:
    """Check whether a folder of that name exists. False for what can't be a path."""
    try:
        return bool(word) and Path(word).is_dir()
    except (OSError, ValueError):  # too long, or with a NUL
        return False
