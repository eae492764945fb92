"""Read the files of a configuration before Hydra does.

For a damaged file Hydra raises exceptions of many types, often without the name of the file. This
module first reads every file that a command line names, directly or through the defaults lists of
other files, and its errors name the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import NodeEvent, ScalarEvent, YAMLError, parse  # type: ignore[import-untyped]

from rlcore.config import schema_tree
from rlcore.config.bind import not_a_section
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.config.choices import DEFAULTS, included_options
from rlcore.config.scalars import option_names, plain_value, read_yaml
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, MissingPackageError, PluginError
from rlcore.files.reading import MAX_YAML_BYTES, check_yaml, error_reason, read_text
from rlcore.utils.text import shorten

ROOT = "_global_"
GLOBAL_PACKAGE = f"# @package {ROOT}"
_PACKAGE = re.compile(r"#\s*@package:?\s+(\S+)")
HYDRA = "hydra"
OF_A_SWEEP = frozenset({"launcher", "sweeper"})
"""Keys that a recipe may have in its section `hydra`; the command for sweeps reads them."""


def read_mapping(file: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file, without resolving interpolations.

    An empty file is an empty mapping.

    Raises:
        ConfigError: see :func:`read_scalars`.
    """
    content: dict[str, Any] = plain_value(read_scalars(file))
    return content


def read_scalars(file: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file; see :func:`parse_scalars`.

    Raises:
        ConfigError: the file can't be read, or is no such mapping.
    """
    return parse_scalars(_text_of(file), file)


def parse_scalars(text: str, file: Path) -> dict[str, Any]:
    """Parse a mapping from YAML, with scalars (:mod:`rlcore.config.scalars`).

    Numbers and booleans in the defaults list are replaced by their text, as they name options.

    Args:
        file: where the text is from, for error messages.

    Raises:
        ConfigError: the text is not YAML, is nested too deeply, or does not contain a mapping with
            string keys.
    """
    try:
        content = deepcopy(_content(text))
    except RecursionError:
        raise ConfigError(f"{file}: its values are nested too deeply") from None
    except (ValueError, YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file} can't be read as YAML: {reason}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file} must hold a mapping of keys, got {shorten(content)}")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(f"{file}: keys must be strings, got {key!r}")
    if isinstance(content.get(DEFAULTS), list):
        content[DEFAULTS] = option_names(content[DEFAULTS])
    return content


@lru_cache(maxsize=256)  # a file is parsed for each file that includes it, and each run
def _content(text: str) -> Any:
    """Parse YAML with scalars. The result is cached, so callers must copy it."""
    check_yaml(text)
    root = next((event for event in parse(text) if isinstance(event, NodeEvent)), None)
    if isinstance(root, ScalarEvent) and root.value not in ("", "null", "~"):
        return root.value  # OmegaConf would read it as the key of a mapping
    if root is None or isinstance(root, ScalarEvent):
        return {}
    content = read_yaml(text)
    OmegaConf.create(plain_value(content))  # raises an error for what a configuration can't hold
    return content


def header_of(file: Path) -> str:
    """Return the first line of a file that is not blank; it may set the package of its keys."""
    return _text_of(file).lstrip().split("\n", 1)[0].strip()


def package_of(file: Path) -> str | None:
    """Return the package in which the keys of a file start, according to its first line.

    It begins at the root, e.g. "_global_" or "_global_.actor.optim". None: the line sets none.
    """
    match = _PACKAGE.fullmatch(header_of(file))
    if match is None:
        return None
    return match[1] if match[1] == ROOT else f"{ROOT}.{match[1].removeprefix(f'{ROOT}.')}"


def _text_of(file: Path) -> str:
    """Read the text of a configuration file.

    Raises:
        ConfigError: the path is no file, or the file is not text, too large or can't be read.
    """
    try:
        return read_text(file, MAX_YAML_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} can't be read: {error_reason(error)}") from None


def check_recipes(catalog: Catalog, group_overrides: Iterable[str]) -> None:
    """Read the file of each `group=option`, and the files of the options that these include.

    Raises:
        ConfigError: see :func:`absent_parts`.
        PackageMissing: a recipe with components that are not installed, and a command to install
            them is known.
        PluginError: a recipe with components that are not installed, and no command is known.
    """
    for text in group_overrides:
        group, _, option = text.lstrip("+~").partition("=")
        parts = absent_parts(catalog, group, option)
        # A recipe's component is needed even if another one replaces it: the component's settings
        # class decides which of the recipe's values are dropped.
        if not parts or group.split("/")[0] in COMPONENT_GROUPS:
            continue
        if (command := installing(catalog, parts)) is None:
            error = catalog.unknown_option(*parts[0])
            raise PluginError(f"{group} {option!r}: {error.message}", hint=error.hint)
        components = " and ".join(f"{group} {option!r}" for group, option in parts)
        raise MissingPackageError(
            f"{group} {option!r} needs {components}, not installed: {command}"
        )


def absent_parts(
    catalog: Catalog, group: str, option: str, above: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Return (group, option) for each component that an option needs and that is not installed.

    Args:
        above: `group/option` of the options that include this one, outermost first.

    Raises:
        ConfigError: a file that is damaged, includes itself, or has keys where it may not.
    """
    top = group.split("/")[0]
    name = f"{group}/{option}"
    # a file in a folder inside the group's is read only when Hydra asks for it
    file = None if group not in catalog.groups or "/" in option else catalog.file(group, option)
    if file is None:
        exists = top not in COMPONENT_GROUPS or option in catalog.options(top)
        return [] if exists else [(top, option)]
    if name in above:
        raise ConfigError(f"{file} includes itself: {' -> '.join([*above, name])}")
    content = read_mapping(file)
    if top not in COMPONENT_GROUPS:
        _check_package(file, group, content)
    parts: dict[tuple[str, str], None] = {}
    for inner in included_options(file, group, content):
        parts |= dict.fromkeys(absent_parts(catalog, *inner, above=(*above, name)))
    return [*parts]


def installing(catalog: Catalog, parts: list[tuple[str, str]]) -> str | None:
    """Return the command that installs absent components; None if no such command is known."""
    kinds = [(COMPONENT_GROUPS[group.split("/")[0]], option) for group, option in parts]
    return catalog.registry.install_command(kinds)


def _check_package(file: Path, group: str, content: dict[str, Any]) -> None:
    """Check in which section the keys of a file are.

    By default Hydra puts the keys of a file below the name of its folder. A first line
    `# @package ...` puts them at the root or in a section instead.

    Raises:
        ConfigError: a file with keys but without this line, a line that names no section, keys of
            `hydra` that are not allowed, or a single value for a section.
    """
    package = package_of(file)
    keys = [key for key in content if key != DEFAULTS]
    if keys and package is None:
        raise ConfigError(
            f"{file} must begin with the line {GLOBAL_PACKAGE!r}, got {header_of(file)!r}: "
            f"without it its keys ({', '.join(keys[:3])}) would end up below {group!r}",
            hint="'# @package actor.optim' for a file that only holds keys of that section",
        )
    sections = [] if package is None else package.split(".")[1:]
    if not all(re.fullmatch(r"[A-Za-z]\w*", name) for name in sections):
        raise ConfigError(
            f"{file} begins with {header_of(file)!r}, which names no section",
            hint=f"{GLOBAL_PACKAGE!r}, or a section: '# @package actor.optim'",
        )
    values: dict[str, Any] = {key: content[key] for key in keys}
    for name in reversed(sections):
        values = {name: values}
    about = values.get(HYDRA, {})
    allowed = OF_A_SWEEP if group == EXPERIMENT and not sections else frozenset[str]()
    if not isinstance(about, dict) or not allowed.issuperset(about):
        raise ConfigError(
            f"{file}: of {HYDRA}, a recipe may hold {' and '.join(sorted(OF_A_SWEEP))} only, and "
            "other files nothing",
            hint="give other keys of Hydra on the command line",
        )
    for section in (key for key in schema_tree.walk(RunConfig()) if key.section):
        value = schema_tree.find(values, section.path)
        if value is not None and not isinstance(value, dict):
            error = not_a_section(section.path, value, section.value)
            raise ConfigError(f"{file}: {error.message}", hint=error.hint)
