"""Merge group choices and defaults lists into one mapping of plain values, with Hydra.

This module only collects values. :mod:`rlcore.config.bind` then checks against the dataclasses that
each key exists and that its value has the right type, also for values of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from rlcore.config import hydra_source
from rlcore.config.catalog import Catalog
from rlcore.config.overrides import quote
from rlcore.config.scalars import unmarked
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.files.core_configs import PRIMARY, core_configs

HYDRA_VERSION_BASE = "1.3"
NOT_GROUPS = {"hydra"}
_NOT_IN_LIST = re.compile(
    r"Could not override '([\w/]+)'.*No match in the defaults list", re.DOTALL
)


@dataclass(frozen=True)
class FileValues:
    """Values composed from files.

    Attributes:
        values: nested values, with interpolations unresolved.
        choices: the option chosen in each group; groups without an option are absent.
    """

    values: dict[str, Any]
    choices: dict[str, str]


def compose_files(catalog: Catalog, group_overrides: Sequence[str]) -> FileValues:
    """Compose the root file with the chosen options.

    Args:
        group_overrides: `group=option` or `~group`, with a word for each side of env
            (:func:`rlcore.config.choices.by_side`).

    Raises:
        ConfigError, PluginError: an option that does not exist, a file that can't be read, a
            defaults list that does not compose.
    """
    try:
        Plugins.instance().register(hydra_source.ComponentSource)
    except Exception as error:  # Hydra imports all of its plugins, and skips only ImportError
        modules = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
        name = next((each for each in modules if each.startswith("hydra_plugins.")), "a module")
        said = f"Hydra imports all of its plugins, and can't import {name}: {error}"
        raise PluginError(said, hint="pip uninstall its package, or take another Python") from None
    locations = [root.location for root in catalog.roots if root.location != str(core_configs())]
    searchpath = ",".join(f'"{location}"' for location in locations)
    token = hydra_source.catalog.set(catalog)
    try:
        with initialize_config_dir(str(core_configs()), version_base=HYDRA_VERSION_BASE):
            # Our source must come before the folder of the root file, which contains recipes too.
            # `hydra.searchpath` could not do this: its entries are appended to the path.
            path = GlobalHydra.instance().config_loader().get_search_path()
            path.prepend("rlcore", f"{hydra_source.SCHEME}://groups", anchor="main")
            composed = compose(
                config_name=PRIMARY,
                overrides=[f"hydra.searchpath=[{searchpath}]", *map(_quoted, group_overrides)],
                return_hydra_config=True,
            )
    except MissingConfigException as error:
        raise _missing(catalog, error) from None
    # Hydra raises built-in exceptions for many faults of a configuration.
    except (HydraException, OmegaConfBaseException, YAMLError, OSError, ValueError) as error:
        absent = _NOT_IN_LIST.search(str(error))
        raise ConfigError(
            f"the configuration does not compose: {_chain(error)}",
            hint=f"+{absent[1]}=NAME adds a group that no file has chosen from" if absent else None,
        ) from None
    finally:
        hydra_source.catalog.reset(token)
    choices = {
        group: str(option)
        for group, option in composed.hydra.runtime.choices.items()
        if option is not None and group.split("/")[0] not in NOT_GROUPS
    }
    values = OmegaConf.to_container(composed, resolve=False)
    assert isinstance(values, dict)  # the root file is a mapping
    values.pop("hydra")
    return FileValues({str(key): unmarked(value) for key, value in values.items()}, choices)


def _quoted(word: str) -> str:
    """Quote the option of a choice, so that one that looks like a number remains a string."""
    group, sign, option = word.partition("=")
    return f"{group}={quote(option)}" if sign and option != "null" else word


def _missing(catalog: Catalog, error: MissingConfigException) -> Exception:
    """Return the error for a file that Hydra did not find, usually an option of a group."""
    if error.missing_cfg_file is None:
        return ConfigError(f"the configuration does not compose: {_chain(error)}")
    group, _, name = error.missing_cfg_file.removesuffix(".yaml").rpartition("/")
    if group in catalog.groups:
        return catalog.unknown_option(group, name)
    return ConfigError(
        f"the configuration asks for the file {error.missing_cfg_file!r}, which does not exist"
    )


def _chain(error: BaseException) -> str:
    """Join the messages of an error and its causes, each once, by colons."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        # Hydra's advice to append a key with `+` is dropped: the key is most likely misspelled.
        lines = [line.split("To append to your")[0].strip() for line in str(cause).splitlines()]
        text = " ".join(line for line in lines if line)
        if text and text not in texts:
            texts.append(text)
        cause = cause.__cause__
    return ": ".join(texts) or type(error).__name__
