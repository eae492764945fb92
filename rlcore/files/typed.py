"""Check that a value read from a file has the type that its reader expects. Light.

JSON and YAML hold any type under any key. Readers take a value apart with :func:`as_type` first, so
that a wrong one is an error that names it, and no traceback from where it is used. Values are not
converted. Knows no file.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rlcore.files.reading import Unreadable

T = TypeVar("T")
NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "null",
}
"""Scalar types in words."""
SHOWN = 60  # characters of a wrong value


class _WrongKindError(Unreadable):
    """A value that is as a whole of another type.

    Attributes:
        name: of the value.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def as_type(kind: type[T], value: Any, name: str = "") -> T:
    """Return a value of JSON or YAML as `kind`.

    Args:
        kind: bool, int, float, str, `Any`, a `Literal`, a union of these, `list[X]`,
            `tuple[X, ...]`, `tuple[X, Y]`, `dict[str, X]`, or a dataclass of such fields, which is
            made from a mapping. A float may be written as a whole number.
        value: what was read.
        name: what it is called in its file, for the error; empty for the whole file.

    Raises:
        Unreadable: it is of another type, or lacks a field, or has one that `kind` does not have.
            The message names the key, the value and the type.
    """
    return cast(T, _taken(kind, value, name))


def _taken(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Literal:
        if not any(type(value) is type(one) and value == one for one in parts):
            raise _wrong(kind, value, name)
        return value
    if origin in (Union, types.UnionType):
        return _one_of(kind, parts, value, name)
    if is_dataclass(kind):
        return _record(kind, value, name)
    if origin is dict:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise _wrong(kind, value, name)
        return {key: _taken(parts[1], each, _inside(name, key)) for key, each in value.items()}
    if origin in (list, tuple):
        return _sequence(kind, value, name)
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise _wrong(kind, value, name)
    return value


def _one_of(kind: Any, parts: tuple[Any, ...], value: Any, name: str) -> Any:
    inner: list[Unreadable] = []
    for part in parts:
        try:
            return _taken(part, value, name)
        except Unreadable as error:
            inner.append(error)
    nested = [e for e in inner if not isinstance(e, _WrongKindError) or e.name != name]
    raise nested[0] if nested else _wrong(kind, value, name)


def _record(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(kind, value, name)
    hints = get_type_hints(kind)
    own = {field.name: field for field in fields(kind)}
    where = f"{name} " if name else "it "
    for key in value:
        if key not in own:
            raise Unreadable(f"{where}has the unknown key {key!r:.{SHOWN}}")
    for field in own.values():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if field.name not in value and not has_default:
            raise Unreadable(f"{where}lacks {field.name!r}")
    return kind(
        **{key: _taken(hints[key], each, _inside(name, key)) for key, each in value.items()}
    )


def _sequence(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    open_end = origin is list or parts[-1] is Ellipsis
    if not isinstance(value, list | tuple) or not (open_end or len(value) == len(parts)):
        raise _wrong(kind, value, name)
    kinds = [parts[0]] * len(value) if open_end else parts
    entries = [
        _taken(each, entry, f"{name}[{number}]")
        for number, (each, entry) in enumerate(zip(kinds, value, strict=True))
    ]
    return origin(entries)


def _inside(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _wrong(kind: Any, value: Any, name: str) -> _WrongKindError:
    message = f"{name or 'it'} must be {_described(kind)}, got {value!r:.{SHOWN}}"
    return _WrongKindError(message, name)


def _described(kind: Any) -> str:
    """Say a type in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(str(one) for one in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(part) for part in parts)
    if origin is dict or is_dataclass(kind):
        return "a mapping of names to values"
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        return f"a list, each entry {_described(parts[0])}"
    if origin is tuple:
        return f"a list of {len(parts)}: {', '.join(_described(part) for part in parts)}"
    return NAMES.get(kind, str(kind))
