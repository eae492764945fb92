"""Keep numbers and truths as they were written, until it is known whether their key holds text.

`1e5`, `7_5`, `true` are read as 100000.0, 75 and True, by Hydra's grammar and by YAML alike. Where
the key holds text, such as the name of a run or the hash of a commit, that is another text, and two
names may become one. So a value whose text can't be told from it is a :class:`Scalar` until
:func:`settle` meets the type of its key. Light.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

MARK = "\0plain:"
"""How a scalar begins while it is in OmegaConf's hands, which keeps texts alone as they are. No
value of a configuration may hold a NUL."""
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool")}
_TEXT = re.compile(r"(?:list\[str\]|dict\[str, str\]|str)(?: \| None)?")


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number or a truth, with its text.

    Attributes:
        text: as it was written.
        value: what it is read as.
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
    """A value that was read from a text; a :class:`Scalar` where its text is lost otherwise."""
    lost = isinstance(value, (int, float)) and str(value) != text
    return Scalar(text, value) if lost else value


def as_text(value: Any) -> Any:
    """The value for a key that holds text, or texts."""
    return _replaced(value, lambda scalar: scalar.text)


def as_value(value: Any) -> Any:
    """The value for any other key."""
    return _replaced(value, lambda scalar: scalar.value)


def holds_text(type_name: str) -> bool:
    """Check whether a key of a type, as its dataclass has it, holds text or texts."""
    return _TEXT.fullmatch(type_name) is not None


def settle(values: Mapping[str, Any], section: Any) -> dict[str, Any]:
    """Values without scalars, by the types of their keys. What is no key of the section keeps its
    value: other spellings, and what is refused later."""
    known = {} if section is None else vars(section)
    lower = {name.lower(): name for name in known}
    settled = {}
    for raw, value in values.items():
        name = raw if raw in known else lower.get(raw.lower(), "")
        default = known.get(name)
        if schema_tree.is_section(default) and isinstance(value, Mapping):
            settled[raw] = _like(value, settle(value, default))
        else:
            is_text = name and holds_text(schema_tree.type_of(section, name))
            settled[raw] = as_text(value) if is_text else as_value(value)
    return settled


# -- files ------------------------------------------------------------------------------------


class _Loader(get_yaml_loader()):  # type: ignore[misc]  # OmegaConf makes the class
    """OmegaConf's loader, which marks scalars. Keys of mappings stay as they are."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._keys: set[int] = set()

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> Any:
        self._keys |= {id(key) for key, _ in node.value}
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        value = super().construct_object(node, deep=deep)
        if node.tag not in _TAGS or id(node) in self._keys:
            return value
        kept = scalar_of(node.value, value)
        return MARK + kept.text if isinstance(kept, Scalar) else value


def read_yaml(text: str) -> Any:
    """What YAML holds, with marked scalars."""
    return yaml.load(text, Loader=_Loader)  # a SafeLoader


def unmarked(value: Any) -> Any:
    """Values in which scalars stand in place of marked texts."""
    if isinstance(value, str) and value.startswith(MARK):
        text = value.removeprefix(MARK)
        read = yaml.load(text, Loader=get_yaml_loader())  # a SafeLoader
        return Scalar(text, read)
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, dict):
        return {name: unmarked(each) for name, each in value.items()}
    return value


# -- words ------------------------------------------------------------------------------------


class _Visitor(HydraOverrideVisitor):
    """Reads a value as Hydra does, and keeps the texts of scalars. Arguments of functions, and keys
    of mappings, stay as they are."""

    def visitPrimitive(self, ctx: Any) -> Any:
        return scalar_of(ctx.getText().strip(), super().visitPrimitive(ctx))

    def visitFunction(self, ctx: Any) -> Any:
        return HydraOverrideVisitor(self.functions).visitFunction(ctx)


def value_of(override: Override) -> Any:
    """The value of an override that is not a sweep, with scalars."""
    line = override.input_line or ""
    _, sign, text = line.partition("=")
    if not sign or not text.strip() or override.is_sweep_override():
        return override.value()
    return Override._convert_value(parsed(text))


def parsed(text: str) -> Any:
    """What stands behind the = of an override, with scalars."""
    lexer = OverrideLexer(InputStream(text))
    lexer.mode(OverrideLexer.VALUE_MODE)
    tree = OverrideParser(CommonTokenStream(lexer)).value()
    return _Visitor(OverridesParser.create().functions).visit(tree)


def _replaced(value: Any, chosen: Callable[[Scalar], Any]) -> Any:
    if isinstance(value, Scalar):
        return chosen(value)
    if isinstance(value, list):
        return [_replaced(each, chosen) for each in value]
    if isinstance(value, dict):
        return _like(value, {name: _replaced(each, chosen) for name, each in value.items()})
    return value


def _like(value: Mapping[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """A mapping of the same class: one of single entries stays one."""
    return type(value)(changed) if isinstance(value, dict) else changed
