"""Parse the words of a command line: `group=option`, `section.key=value`, and `env.*.key=value` for
a key of both envs. :mod:`rlcore.config.compose` merges them with the files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from rlcore.config.bind import Partial, unknown
from rlcore.config.catalog import BY_RECIPE, COMPONENT_GROUPS, EXPERIMENT, SIDES, Catalog
from rlcore.config.old_names import ConfigWarning, Values, modernise, warn
from rlcore.config.scalars import as_text, value_of
from rlcore.config.schema import RunConfig
from rlcore.config.schema_tree import leaves
from rlcore.contracts.errors import ConfigError
from rlcore.files.reading import check_depth
from rlcore.plugins.registry import load_plugins

_OF_GRAMMAR = ",'\"[]{}()"  # more than a path: left to the grammar
_BRACES = re.compile(r"""['"]?\{(.*)\}['"]?""", re.DOTALL)
_ENTRY = re.compile(r"(?:\[[^]]*\]|\{[^}]*\}|[^,])+")
BUILT_IN = {*COMPONENT_GROUPS, EXPERIMENT}
BOTH = "env.*."
PLACEMENT = "cluster.component_placement"
SHOWN = 200  # characters of an override in an error


def parse(overrides: Sequence[str]) -> list[Override]:
    """Overrides in Hydra's grammar.

    Raises:
        ConfigError: a text that is not an override.
    """
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        key, _, value = text.lstrip("+~").partition("=")
        both = key.startswith(BOTH)
        if value.startswith("~") and value.isprintable() and not set(value) & set(_OF_GRAMMAR):
            # the grammar has no such values; a shell leaves a home behind "=" as it is
            text = text.removesuffix(value) + quote(value)
        if key == PLACEMENT:
            text = text.removesuffix(value) + _names_apart(value)
        if key and not key.isascii():  # the grammar has no such letters
            raise unknown(key, RunConfig())
        if key == EXPERIMENT and not value.isascii():
            raise ConfigError(f"there is no experiment {value!r}", hint="rlcore train --help")
        try:
            check_depth(text)
            # the grammar has no star
            override = parser.parse_override(text.replace(BOTH, "env.both.", 1) if both else text)
            if both:
                override.key_or_group, override.input_line = key, text
            parsed.append(override)
        except (HydraException, ValueError, RecursionError) as error:
            reason = str(error).split("\n", 1)[0]
            raise ConfigError(
                f"can't read the override {text[:SHOWN]!r}: {reason[:SHOWN]}",
                hint="section.key=value; quote values with special characters: 'key=\"~/a b\"'; "
                "keys of a mapping can't be quoted: {env: 0, rollout: 0, actor: 0}",
            ) from None
    return parsed


def _names_apart(value: str) -> str:
    """A placement whose names are joined by commas, which the grammar does not know, with an entry
    for each: `{env,rollout: 0, actor: 1}` -> `{env: 0, rollout: 0, actor: 1}`. Quotes round all of
    it, or round names, may be there."""
    found = _BRACES.fullmatch(value)
    entries: list[str] = []
    names: list[str] = []
    for part in _ENTRY.findall(found[1]) if found else ():
        name, colon, ranks = part.partition(":")
        names.append(name.strip(" '\""))
        if colon:
            entries += [f"{each}:{ranks}" for each in names]
            names = []
    return "{" + ",".join(entries) + "}" if entries and not names else value


def keys_of(override: Override) -> list[str]:
    """Paths of the keys that it sets: one, or that of each env."""
    path = override.key_or_group
    if not path.startswith(BOTH):
        return [path]
    return [f"env.{side}.{path.removeprefix(BOTH)}" for side in SIDES]


def quote(text: str | Path) -> str:
    """Quote a value for an override, whatever characters are in it. Backslashes count only before a
    quotation mark."""
    return "'" + re.sub(r"\\+(?='|\Z)", r"\g<0>\g<0>", str(text)).replace("'", "\\'") + "'"


def split(catalog: Catalog, overrides: Sequence[Override]) -> tuple[list[str], list[Values]]:
    """Group choices, for Hydra, and values, for us, one layer each."""
    groups: list[str] = []
    values: list[Values] = []
    for override in overrides:
        text = override.input_line or ""
        if override.is_sweep_override():
            raise ConfigError(f"{text} lists several values", hint="-m runs one job for each")
        if not all(override.key_or_group.split(".")) or override.package is not None:
            raise ConfigError(f"can't read the override {text!r}", hint="section.key=value")
        if override.key_or_group in catalog.groups:
            choice, only_eval = _choice(catalog, override)
            groups.append(choice)
            if only_eval:
                values.append(nest("runner.only_eval", True))
        elif override.is_delete():
            raise ConfigError(f"{text}: a key can't be deleted", hint="set it to null instead")
        else:
            values += [nest(path, value_of(override)) for path in keys_of(override)]
    return groups, values


def _choice(catalog: Catalog, override: Override) -> tuple[str, bool]:
    """`group=option` for Hydra, and whether it is a recipe to evaluate only. An option in other
    upper and lower case is understood."""
    text = (override.input_line or "").lstrip("+")
    group, name = override.key_or_group, as_text(value_of(override))
    if override.is_delete():
        if group.split("/")[0] in COMPONENT_GROUPS:
            raise ConfigError(f"{text}: a run needs one", hint=f"another one: {group}=NAME")
        return text, False
    if isinstance(name, (int, float)):  # a name such as 7, which the grammar reads as a number
        name = text.partition("=")[2].strip()
    if not isinstance(name, str):
        raise ConfigError(
            f"{group} must be one of {', '.join(catalog.options(group)) or 'none'}, "
            f"got {text.partition('=')[2]!r}"
        )
    # Hydra adds a group of the user's own by a +; components and recipes are always in the list
    plus = "+" if override.is_add() and group.split("/")[0] not in BUILT_IN else ""
    found, only_eval = (
        catalog.recipe(name) if group == EXPERIMENT else (catalog.option(group, name), False)
    )
    if found is None:
        raise catalog.unknown_option(group, name)
    if found == name:
        return plus + text, False
    meant = f"{group}={found}" + (" runner.only_eval=true" if only_eval else "")
    warn(f"{group}={name} is an old spelling of {meant}")
    return f"{plus}{group}={found}", only_eval


def keys_given(words: Sequence[str]) -> frozenset[str]:
    """Paths of the keys that words of a command line set, under the names they have today."""
    chosen = [word for word in words if not word.startswith(BY_RECIPE)]  # may be any folder
    layers = [
        nest(path, override.value())
        for override in parse(chosen)
        if not override.is_delete()
        for path in keys_of(override)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigWarning)  # they were given when these were composed
        modernise(layers, load_plugins(), None)
    # upper and lower case are mended wherever they occur
    return frozenset(path.lower() for layer in layers for path, _ in leaves(layer))


def nest(path: str, value: Any) -> Values:
    head, _, rest = path.partition(".")
    return Partial({head: nest(rest, value) if rest else value})
