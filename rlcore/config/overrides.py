"""Parse the overrides of a command line.

These are `group=option`, `section.key=value`, and `env.*.key=value` for a key of both envs.
:mod:`rlcore.config.compose` merges their values with those of the files.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException

from rlcore.config.bind import Partial, unknown_key
from rlcore.config.catalog import BY_RECIPE, COMPONENT_GROUPS, EXPERIMENT, SIDES, Catalog
from rlcore.config.scalars import Scalar, as_text, parse_value, value_of
from rlcore.config.schema import RunConfig
from rlcore.config.schema_tree import leaves
from rlcore.config.translation import Values, translate_foreign_keys
from rlcore.config.warning import ConfigWarning, warn
from rlcore.contracts.errors import ConfigError
from rlcore.files.reading import check_depth
from rlcore.plugins.registry import load_plugins
from rlcore.utils.text import abbreviate_list

_OF_GRAMMAR = ",'\"[]{}()"  # a value with one of these is more than a path: Hydra parses it
_BRACES = re.compile(r"""['"]?\{(.*)\}['"]?""", re.DOTALL)
_ENTRY = re.compile(r"(?:\[[^]]*\]|\{[^}]*\}|[^,])+")
BUILT_IN = {*COMPONENT_GROUPS, EXPERIMENT}
BOTH_SIDES = "env.*."
PLACEMENT = "cluster.component_placement"
SHOWN = 200  # characters of an override in an error


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides with Hydra's grammar, with additions.

    In addition `~` may begin a path, `env.*.KEY` sets a key of both envs, and names of a placement
    may be joined by commas.

    Raises:
        ConfigError: a text that is not an override.
    """
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        key, _, value = text.lstrip("+~").partition("=")
        both = key.startswith(BOTH_SIDES)
        if value.startswith("~") and value.isprintable() and not set(value) & set(_OF_GRAMMAR):
            # Hydra's grammar has no values with ~, and a shell does not expand ~ after "="
            text = text.removesuffix(value) + quote(value)
        if key == PLACEMENT:
            text = text.removesuffix(value) + _split_joined_names(value)
        if key and not key.isascii():  # keys in Hydra's grammar are ASCII
            raise unknown_key(key, RunConfig())
        if key == EXPERIMENT and not value.isascii():
            raise ConfigError(f"there is no experiment {value!r}", hint="rlcore train --help")
        try:
            check_depth(text)
            # keys in Hydra's grammar have no `*`: parse another name, and put the key back after
            override = parser.parse_override(
                text.replace(BOTH_SIDES, "env.both.", 1) if both else text
            )
            if both:
                override.key_or_group = key
                override.input_line = text
            parsed.append(override)
        except (HydraException, ValueError, RecursionError) as error:
            reason = str(error).split("\n", 1)[0]
            raise ConfigError(
                f"can't read the override {text[:SHOWN]!r}: {reason[:SHOWN]}",
                hint="section.key=value; quote values with special characters: 'key=\"~/a b\"'; "
                "keys of a mapping can't be quoted: {env: 0, rollout: 0, actor: 0}",
            ) from None
    return parsed


def _split_joined_names(value: str) -> str:
    """Return a placement with an entry for each name, as Hydra's grammar has no joined names.

    `{env,rollout: 0, actor: 1}` -> `{env: 0, rollout: 0, actor: 1}`. Quotes around the whole value
    or around names are removed. A value of another form is returned unchanged.
    """
    braces = _BRACES.fullmatch(value)
    entries: list[str] = []
    names: list[str] = []
    for part in _ENTRY.findall(braces[1]) if braces else ():
        name, colon, ranks = part.partition(":")
        names.append(name.strip(" '\""))
        if colon:
            entries += [f"{joined}:{ranks}" for joined in names]
            names = []
    return "{" + ",".join(entries) + "}" if entries and not names else value


def keys_of(override: Override) -> list[str]:
    """Return the paths of the keys that an override sets: two for `env.*.key`, else one."""
    path = override.key_or_group
    if not path.startswith(BOTH_SIDES):
        return [path]
    return [f"env.{side}.{path.removeprefix(BOTH_SIDES)}" for side in SIDES]


def quote(text: str | Path) -> str:
    """Quote a value for an override; it may contain any characters.

    Backslashes are doubled only before a quotation mark and at the end: elsewhere Hydra's grammar
    reads them as they are.
    """
    return "'" + re.sub(r"\\+(?='|\Z)", r"\g<0>\g<0>", str(text)).replace("'", "\\'") + "'"


def quote_scalars(value: str) -> str:
    """Quote a scalar, or each scalar of a list `a,b` or of `choice(...)`: `1e5,b` -> `'1e5',b`.

    Quotes preserve the text of a number or boolean; other values are returned unchanged.
    """
    choices = re.fullmatch(r"choice\((.*)\)", value, re.DOTALL)
    if choices:
        return f"choice({quote_scalars(choices[1])})"
    parsed = parse_value(value)
    if isinstance(parsed, Scalar):
        return quote(parsed.text)
    if not isinstance(parsed, ChoiceSweep) or not parsed.simple_form:
        return value
    return ",".join(
        quote(element.text)
        if isinstance(element, Scalar)
        else Override._get_value_element_as_str(element)
        for element in parsed.list
    )


def split(catalog: Catalog, overrides: Sequence[Override]) -> tuple[list[str], list[Values]]:
    """Separate group choices from values.

    Returns:
        `group=option` words, which Hydra composes, and a layer of nested values for each key that
        is set, in the order of the overrides.

    Raises:
        ConfigError, PluginError: a sweep over several values, an option that does not exist, a key
            to delete, or a text that can't be read.
    """
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
    """Return `group=option` for Hydra, and whether it is a recipe that is only evaluated.

    An option that differs only in case is corrected, with a warning.
    """
    text = (override.input_line or "").lstrip("+")
    group = override.key_or_group
    name = as_text(value_of(override))
    if override.is_delete():
        if group.split("/")[0] in COMPONENT_GROUPS:
            raise ConfigError(f"{text}: a run needs one", hint=f"another one: {group}=NAME")
        return text, False
    if isinstance(name, (int, float)):  # a name such as 7, which the grammar reads as a number
        name = text.partition("=")[2].strip()
    if not isinstance(name, str):
        raise ConfigError(
            f"{group} must be one of {abbreviate_list(catalog.options(group)) or 'none'}, "
            f"got {text.partition('=')[2]!r}",
            hint=f"rlcore train --help {group}",
        )
    # Hydra needs a + for a group that is not in the defaults list, such as one of the user's own;
    # components and recipes are always in that list, so a + before them is dropped
    plus = "+" if override.is_add() and group.split("/")[0] not in BUILT_IN else ""
    only_eval = False
    option = catalog.option(group, name)
    if group == EXPERIMENT:
        option, only_eval = catalog.recipe(name)
    if option is None:
        raise catalog.unknown_option(group, name)
    if option == name:
        return plus + text, False
    replacement = f"{group}={option}" + (" runner.only_eval=true" if only_eval else "")
    warn(f"{group}={name} is read as {replacement}")
    return f"{plus}{group}={option}", only_eval


def overridden_keys(words: Sequence[str]) -> frozenset[str]:
    """Return the paths of the keys that words of a command line set.

    Keys of other systems are translated, and paths are in lower case.
    """
    chosen = [word for word in words if not word.startswith(BY_RECIPE)]  # may be any path
    layers = [
        nest(path, override.value())
        for override in parse_overrides(chosen)
        if not override.is_delete()
        for path in keys_of(override)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigWarning)  # compose() has already warned
        translate_foreign_keys(layers, load_plugins(), None)
    # compared in lower case, as a key in another case is corrected when it is bound
    return frozenset(path.lower() for layer in layers for path, _ in leaves(layer))


def nest(path: str, value: Any) -> Values:
    """Return a mapping nested along a dotted path: `a.b` and 1 -> `{"a": {"b": 1}}`."""
    head, _, rest = path.partition(".")
    return Partial({head: nest(rest, value) if rest else value})
