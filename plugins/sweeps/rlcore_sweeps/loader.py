"""Compose the configuration that Hydra's plugins see: all keys below `hydra.`, and the overrides.

The configuration of a run is not part of it: rlcore composes that in the job's process, from
`hydra.overrides.task`. The loader can be pickled, because launchers send it to other processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from traceback import walk_tb
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.catalog import Catalog
from rlcore.contracts.errors import (
    ConfigError,
    PluginError,
    choices_message,
    did_you_mean,
    nearest_choice,
)
from rlcore.plugins.extras import install_command
from rlcore.plugins.registry import load_plugins
from rlcore.utils.text import shorten
from rlcore_sweeps.folder_names import folder_suffix
from rlcore_sweeps.request import SUBDIR, is_hydra_key, key_of, override_list, parsable, to_hydra
from rlcore_sweeps.safe_overrides import SAFE_OVERRIDES, is_safe

DEFAULTS = {
    "hydra/launcher": "rlcore",
    "hydra/hydra_logging": "none",
    "hydra/job_logging": "none",
    "hydra.output_subdir": "null",
}
"""Defaults of rlcore for keys of Hydra that the user has not set."""
OPEN_MAPPINGS = (
    *(f"hydra.sweeper.{name}." for name in ("params", "sampler_options", "pruner_options")),
    "hydra.job.env_set.",
)
"""Mappings with arbitrary keys. Hydra would require a `+` before them, so `++` is added."""
SHOWN = 200  # characters of an override that an error message shows
PUBLISHED = {
    "hydra/launcher": {
        "joblib": "hydra-joblib-launcher",
        "submitit_local": "hydra-submitit-launcher",
        "submitit_slurm": "hydra-submitit-launcher",
        "ray": "hydra-ray-launcher",
        "ray_aws": "hydra-ray-launcher",
    },
}
"""Third-party distribution that provides an option of a group."""
UNFIT = {
    "optuna": "hydra-optuna-sweeper asks for optuna<3, rlcore for 5 or more",
    "ax": "hydra-ax-sweeper can't be imported from Python 3.11 on, and would end each command",
    "nevergrad": "hydra-nevergrad-sweeper asks for numpy<1.20",
}
"""Third-party sweepers that would break an installation of rlcore, and why."""

OmegaConf.register_new_resolver(
    "rlcore_number", lambda number, digits: f"{int(number):0{int(digits)}}", replace=True
)


@dataclass(frozen=True)
class SweepLoader(ConfigLoader):
    """A loader of Hydra's configuration that leaves the configuration of runs to rlcore.

    Attributes:
        config_dirs: the user's folders of config groups, which may contain `hydra/launcher/`.
        fixed: overrides that are the same in all jobs.
        digits: digits of a job's number in the name of its folder.
        typed: overrides of Hydra's keys that the user has typed. All others are accepted only if
            they are safe (:mod:`rlcore_sweeps.safe_overrides`).
    """

    config_dirs: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    digits: int = 1
    typed: frozenset[str] = frozenset()

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Compose `hydra.*` from the overrides of Hydra's keys.

        The other overrides are listed in `hydra.overrides.task`.

        Raises:
            ConfigError: Hydra and its plugins lack a key or option, or an override that the user
                has not typed may load code.
        """
        hydra_overrides = [word for word in overrides if is_hydra_key(word)]
        task = [word for word in overrides if word not in hydra_overrides]
        for word in hydra_overrides:
            self._require_safe(word)
        hydra_overrides = [
            f"++{word}" if word.startswith(OPEN_MAPPINGS) else word for word in hydra_overrides
        ]
        set_keys = {key_of(word) for word in hydra_overrides}
        defaults = [f"{key}={value}" for key, value in DEFAULTS.items() if key not in set_keys]
        try:
            config = self._hydra.load_configuration(
                None, [*defaults, *hydra_overrides], run_mode, from_shell, validate_sweep_overrides
            )
            for part in ("launcher", "sweeper"):
                if not isinstance(config.hydra[part], DictConfig):
                    raise ConfigError(f"hydra.{part} is chosen by name: hydra/{part}=NAME")
        except (HydraException, OmegaConfBaseException) as error:
            raise self._explain(hydra_overrides, error) from None
        with open_dict(config.hydra):
            config.hydra.overrides.hydra = hydra_overrides
            config.hydra.overrides.task = task
            config.hydra.job.override_dirname = self._dirname(config, task)
            if run_mode == RunMode.RUN and SUBDIR not in set_keys:
                config.hydra.sweep.subdir = self._subdir(task)
        return config

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Compose Hydra's configuration of one job.

        Raises:
            ConfigError: the sweeper proposes an override of Hydra's keys, which must be the same
                for all jobs.
        """
        for word in sweep_overrides:
            if is_hydra_key(word):
                raise ConfigError(
                    f"{shorten(word)} is a key of Hydra, which can't differ between jobs",
                    hint=f"search over keys of a run; set {key_of(word)} on the command line",
                )
        hydra_overrides = override_list(master_config.hydra.overrides.hydra)
        words = [*hydra_overrides, *map(parsable, sweep_overrides)]
        config = self.load_configuration(None, words, RunMode.RUN)
        OmegaConf.copy_cache(from_config=master_config, to_config=config)  # ${now:...} is the same
        return config

    def get_search_path(self) -> ConfigSearchPath:
        """Return Hydra's search path for configurations."""
        return self._hydra.get_search_path()

    def get_sources(self) -> list[ConfigSource]:
        """Return the sources that Hydra reads configurations from."""
        return list(self._hydra.get_sources())

    def list_groups(self, parent_name: str) -> list[str]:
        """Return the names of the config groups directly below a group; rlcore's or Hydra's."""
        if parent_name.startswith("hydra"):
            return list(self._hydra.list_groups(parent_name))
        start = f"{parent_name}/" if parent_name else ""
        groups = {group for group in self._catalog.groups if group.startswith(start)}
        return sorted({group.removeprefix(start).split("/")[0] for group in groups})

    def get_group_options(
        self,
        group_name: str,
        results_filter: ObjectType | None = ObjectType.CONFIG,
        config_name: str | None = None,
        overrides: list[str] | None = None,
    ) -> list[str]:
        """Return the options of a config group: the values that `group=` accepts."""
        if group_name.startswith("hydra"):
            return list(self._hydra.get_group_options(group_name, results_filter))
        return self._catalog.options(group_name)

    def compute_defaults_list(
        self, config_name: str | None, overrides: list[str], run_mode: RunMode
    ) -> Any:
        """Return the defaults list of Hydra's own configuration."""
        return self._hydra.compute_defaults_list(None, overrides, run_mode)

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @cached_property
    def _hydra(self) -> ConfigLoaderImpl:
        """Hydra's own loader, which also searches `config_dirs`.

        Raises:
            ConfigError: a file of the user has the name of an installed option.
            PluginError: a plugin of Hydra can't be imported.
        """
        _import_plugins()
        path = create_config_search_path(None)
        installed = ConfigLoaderImpl(create_config_search_path(None))
        for folder in self.config_dirs:
            place = Path(folder).expanduser().absolute()
            for option in _options(installed, "hydra"):
                if (file := place / f"{option}.yaml").is_file():
                    raise ConfigError(
                        f"{file} has the name of an option of Hydra or of an installed plugin, "
                        "which must not be replaced",
                        hint="rename it, and choose it: hydra/launcher=NAME",
                    )
            path.prepend("command-line", str(place), anchor="schema")
        return ConfigLoaderImpl(path)

    def _require_safe(self, word: str) -> None:
        """Reject an override of Hydra's keys that the user has not typed and that may load code."""
        if word.lstrip("+") in {typed.lstrip("+") for typed in self.typed}:  # see OPEN_MAPPINGS
            return
        safe = is_safe(word)
        group, _, option = word.partition("=")
        if safe and "/" in group and self.config_dirs:
            installed = ConfigLoaderImpl(create_config_search_path(None))
            options = set(self._hydra.get_group_options(group))
            safe = option not in options.difference(installed.get_group_options(group))
        if not safe:
            raise ConfigError(
                f"{shorten(word, SHOWN)} may load or run code, and comes from a file",
                hint=f"a file may give {SAFE_OVERRIDES}; give others on the command line",
            )

    @cached_property
    def _catalog(self) -> Catalog:
        return Catalog(load_plugins(), self.config_dirs)

    def _subdir(self, task: Sequence[str]) -> str:
        swept = [word for word in task if word not in self.fixed]
        number = f"${{rlcore_number:${{hydra.job.num}},{self.digits}}}"
        return number + folder_suffix(swept, self.digits)

    def _dirname(self, config: DictConfig, task: Sequence[str]) -> str:
        settings = config.hydra.job.config.override_dirname
        parsed = OverridesParser.create().parse_overrides(to_hydra(task))
        return str(
            get_overrides_dirname(
                parsed, list(settings.exclude_keys), str(settings.item_sep), str(settings.kv_sep)
            )
        )

    def _explain(self, words: Sequence[str], error: Exception) -> ConfigError:
        """Turn Hydra's error about overrides of its keys into one that suggests a name."""
        reason = re.sub(r"\s+", " ", str(error).split("\nTo append")[0]).strip()
        known_keys = self._known_keys([word for word in words if "/" in key_of(word)])
        for word in words:
            key, _, value = word.lstrip("+~").partition("=")
            if "/" in key:
                options = self._hydra.get_group_options(key, ObjectType.CONFIG)
                if options and value not in options:
                    return _missing_option(key, value, options)
                if not options:
                    groups = [f"hydra/{name}" for name in self._hydra.list_groups("hydra")]
                    return ConfigError(f"there is no group {key!r}.{did_you_mean(key, groups)}")
            elif key not in known_keys and key in reason:
                parent = f"{key.rpartition('.')[0]}."
                siblings = [name for name in known_keys if name.startswith(parent)]
                return ConfigError(
                    f"unknown key {key!r}{choices_message(key, siblings or known_keys)}",
                    hint=self._owner_hint(key) or "rlcore train --cfg hydra shows them all",
                )
        cause = str(error.__cause__ or "").partition("\n")[0]
        return ConfigError(f"{reason}: {cause}" if cause else reason)

    def _owner_hint(self, key: str) -> str:
        """Return a hint at the launchers or sweepers that have a key; empty for other sections."""
        section = key.split(".")[1]
        group = f"hydra/{section}"
        if section not in ("launcher", "sweeper"):
            return ""
        options = self._hydra.get_group_options(group, ObjectType.CONFIG)
        names = [
            f"{group}={name}" for name in options if key in self._known_keys([f"{group}={name}"])
        ]
        return (
            f"{' or '.join(names)} has it"
            if names
            else f"other keys come with another {group}=NAME"
        )

    def _known_keys(self, groups: Sequence[str]) -> list[str]:
        """Return all keys below `hydra.`, with the chosen launcher and sweeper if they compose.

        Args:
            groups: overrides of the form `group=option`.
        """
        set_keys = set(map(key_of, groups))
        defaults = [f"{key}={value}" for key, value in DEFAULTS.items() if key not in set_keys]
        try:
            config = self._hydra.load_configuration(None, [*defaults, *groups], RunMode.MULTIRUN)
        except (HydraException, OmegaConfBaseException):  # one of the groups causes the error
            config = self._hydra.load_configuration(None, defaults, RunMode.MULTIRUN)
        content = OmegaConf.to_container(config, resolve=False)
        assert isinstance(content, dict)
        return _nested_keys(content["hydra"], "hydra")


def _missing_option(group: str, option: str, options: Sequence[str]) -> ConfigError:
    """Return the error for an option that is not installed.

    It may be misspelt, come with a third-party distribution, or be incompatible with rlcore.
    """
    published = PUBLISHED.get(group, {})
    unfit = UNFIT if group == "hydra/sweeper" else {}
    if option in unfit:
        return ConfigError(
            f"{group}={option} can't be installed beside rlcore: {unfit[option]}",
            hint=f"hydra/sweeper=rlcore_optuna searches too: {install_command(['optuna'])}",
        )
    if option in published:
        return ConfigError(
            f"{group}={option} is not installed; there are {', '.join(sorted(options))}",
            hint=f"pip install {published[option]}",
        )
    message = f"there is no {group} {option!r}{choices_message(option, options, also=published)}"
    package = published.get(nearest_choice(option, [*options, *published]) or "")
    return ConfigError(message, hint=f"pip install {package}" if package else None)


def _options(loader: ConfigLoaderImpl, group: str) -> Iterator[str]:
    """Yield the options of a group and of all groups below it, e.g. "hydra/launcher/basic"."""
    for name in loader.get_group_options(group, ObjectType.CONFIG):
        yield f"{group}/{name}"
    for inner in loader.list_groups(group):
        yield from _options(loader, f"{group}/{inner}")


def _nested_keys(values: Any, path: str) -> list[str]:
    """Return `path` and the dotted paths of all keys nested below it, without `_target_`."""
    if not isinstance(values, dict) or not values:
        return [path]
    return [
        path,
        *(
            nested
            for name, value in values.items()
            if name != "_target_"
            for nested in _nested_keys(value, f"{path}.{name}")
        ),
    ]


def _import_plugins() -> None:
    """Import all plugins of Hydra.

    Raises:
        PluginError: names the module that can't be imported.
    """
    try:
        Plugins.instance()
    except Exception as error:  # Hydra skips only plugins that raise ImportError
        modules = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
        name = next((module for module in modules if module.startswith("hydra_plugins.")), "one")
        raise PluginError(
            f"Hydra imports all of its plugins, and can't import {name}: {error}",
            hint="pip uninstall its package, or use another Python",
        ) from None
