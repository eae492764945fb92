"""Preserve the text of numbers and booleans until the type of their key is known. Light.

Hydra's grammar and YAML both read `1e5`, `7_5` and `true` as 100000.0, 75 and True. For a key that
holds text, such as the name of a run or the hash of a commit, converting these values back gives
another text, and two different names may become equal. Therefore a value from which its text can't
be recovered is a :class:`Scalar` until :func:`resolve_scalars` looks up the type of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.overrides_visitor import HydraOverrideVisitor
from hydra.core.override_parser.types import Override
from hydra.grammar.gen.OverrideLexer import (  # type: ignore[attr-defined]  # of antlr4
    CommonTokenStream,
    InputStream,
    OverrideLexer,
)
from hydra.grammar.gen.OverrideParser import OverrideParser
from omegaconf._utils import get_yaml_loader

from rlcore.config import schema_tree

_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool")}


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number or a boolean, with its text. It is equal to its value.

    Attributes:
        text: the text as it was written.
        value: the value that is read from the text.
    """

    text: str
    value: int | float | bool

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Scalar) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.text


def scalar_of(text: str, value: Any) -> Any:
    """Return a :class:`Scalar` if `value` is a number or boolean and str() does not give `text`.

    Any other value is returned unchanged.

    Args:
        text: the text that `value` was read from.
    """
    lost = isinstance(value, (int, float)) and str(value) != text
    return Scalar(text, value) if lost else value


def as_text(value: Any) -> Any:
    """Replace scalars, also in lists and mappings, by their text."""
    return _replaced(value, lambda scalar: scalar.text)


def option_names(entries: Any) -> Any:
    """Replace every number and boolean of a defaults list by its text: `2024` may name a recipe."""
    if isinstance(entries, list):
        return [option_names(entry) for entry in entries]
    if isinstance(entries, dict):
        return {group: option_names(option) for group, option in entries.items()}
    return str(entries) if isinstance(entries, (Scalar, int, float)) else entries


def plain_value(value: Any) -> Any:
    """Replace scalars, also in lists and mappings, by their value."""
    return _replaced(value, lambda scalar: scalar.value)


def resolve_scalars(values: Mapping[str, Any], section: Any) -> dict[str, Any]:
    """Replace scalars by their text or their value, depending on the type of their key.

    Keys are compared without case. A scalar of an unknown key is replaced by its value: such a key
    is an old name, or is refused later.

    Args:
        values: nested values.
        section: the section of the schema with the keys; None: all keys are unknown.
    """
    keys = () if section is None else fields(section)
    defaults = {key.name: getattr(section, key.name) for key in keys}
    lower = {name.lower(): name for name in defaults}
    resolved = {}
    for raw, value in values.items():
        name = raw if raw in defaults else lower.get(raw.lower(), "")
        default = defaults.get(name)
        if schema_tree.is_section(default) and isinstance(value, Mapping):
            resolved[raw] = _like(value, resolve_scalars(value, default))
        else:
            is_text = name and schema_tree.is_text_type(schema_tree.type_of(section, name))
            resolved[raw] = as_text(value) if is_text else plain_value(value)
    return resolved


# -- files ------------------------------------------------------------------------------------


class _Loader(get_yaml_loader()):  # type: ignore[misc]  # OmegaConf makes the class
    """OmegaConf's YAML loader, with a :class:`Scalar` where a text would be lost.

    Keys of mappings are read as OmegaConf does.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._keys: set[int] = set()

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> Any:
        self._keys |= {id(key) for key, _ in node.value}
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        value = super().construct_object(node, deep=deep)
        is_value = node.tag in _TAGS and id(node) not in self._keys
        return scalar_of(node.value, value) if is_value else value


def read_yaml(text: str) -> Any:
    """Parse YAML, with scalars."""
    return yaml.load(text, Loader=_Loader)  # a SafeLoader


# -- words ------------------------------------------------------------------------------------


class _Visitor(HydraOverrideVisitor):
    """Hydra's visitor of parsed values, with a :class:`Scalar` where a text would be lost.

    Arguments of functions and keys of mappings are read as Hydra does.
    """

    def visitPrimitive(self, ctx: Any) -> Any:
        return scalar_of(ctx.getText().strip(), super().visitPrimitive(ctx))

    def visitFunction(self, ctx: Any) -> Any:
        return HydraOverrideVisitor(self.functions).visitFunction(ctx)


def value_of(override: Override) -> Any:
    """Return the value of an override, with scalars.

    The value of a sweep or of an override without a text is what Hydra returns, without scalars.
    """
    line = override.input_line or ""
    _, sign, text = line.partition("=")
    if not sign or not text.strip() or override.is_sweep_override():
        return override.value()
    return Override._convert_value(parse_value(text))


def parse_value(text: str) -> Any:
    """Parse the text after the `=` of an override, with scalars."""
    lexer = OverrideLexer(InputStream(text))
    lexer.mode(OverrideLexer.VALUE_MODE)
    tree = OverrideParser(CommonTokenStream(lexer)).value()
    return _Visitor(OverridesParser.create().functions).visit(tree)


def _replaced(value: Any, chosen: Callable[[Scalar], Any]) -> Any:
    if isinstance(value, Scalar):
        return chosen(value)
    if isinstance(value, list):
        return [_replaced(item, chosen) for item in value]
    if isinstance(value, dict):
        return _like(value, {name: _replaced(item, chosen) for name, item in value.items()})
    return value


def _like(value: Mapping[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """Return `changed` in the class of `value`.

    A :class:`rlcore.config.bind.Partial` therefore remains one.
    """
    return type(value)(changed) if isinstance(value, dict) else changed
