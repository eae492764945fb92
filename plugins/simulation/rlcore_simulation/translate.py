"""Convert commands and answers to messages of :mod:`.wire` and back, by the types of their fields.

Settings and errors are sent with the name of their class, by which the other side finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from rlcore.config.schema import Settings
from rlcore.contracts import errors
from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import Episode
from rlcore.plugins.import_target import load_target
from rlcore_simulation.messages import Command, Failure, Hosting, Reply
from rlcore_simulation.values import address_of, plain, restored
from rlcore_simulation.wire import Message, WireError

Section = TypeVar("Section", bound=Settings)
Kinds = Mapping[str, Any]
"""Types of commands or answers, by name."""
Arrays = dict[str, np.ndarray]
COMMANDS: Kinds = {kind.__name__: kind for kind in (Hosting, *get_args(Command))}
ANSWERS: Kinds = {
    "frames" if get_origin(kind) else kind.__name__: kind for kind in (*get_args(Reply), Failure)
}
SAID: Kinds = {**COMMANDS, **ANSWERS}
CONTENT = "content"
MAPPINGS = (dict, Mapping)


def encode(said: Any, kinds: Kinds = SAID) -> Message:
    """Convert a command or an answer to a message.

    Args:
        kinds: types that are said; by default those of a simulator process.
    """
    name = "frames" if isinstance(said, dict) else type(said).__name__
    arrays: Arrays = {}
    content = _encode(kinds[name], said, name, arrays)
    return Message(name, {CONTENT: content}, arrays)


def decode(message: Message, kinds: Kinds) -> Any:
    """Convert a message to a command or an answer.

    Args:
        kinds: types that the other side may send: :data:`COMMANDS` or :data:`ANSWERS`.

    Raises:
        WireError: the message has another type, or its content is invalid.
    """
    if message.kind not in kinds:
        raise WireError(f"a message is a {message.kind!r}, which is none of {', '.join(kinds)}")
    try:
        return _decode(kinds[message.kind], message.fields[CONTENT], message.arrays)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise WireError(f"a message {message.kind!r} can't be understood: {reason}") from error


def _encode(kind: Any, value: Any, place: str, arrays: Arrays) -> Any:
    """Encode a value as JSON values, according to its declared type.

    Args:
        kind: declared type of the value.
        place: path of the value in the message, e.g. "Play/actions".
        arrays: mapping to which arrays are added, by their paths.
    """
    kind, inner = _opened(kind)
    if value is None:
        return None
    if kind is np.ndarray:
        arrays[place] = value
        return place
    if _is_settings(kind):
        values = {name: plain(entry, f"key {name}") for name, entry in asdict(value).items()}
        return {"class": address_of(type(value), "the settings"), "values": values}
    if kind is UserError:
        return {"class": type(value).__name__, "message": value.message, "hint": value.hint}
    if kind is range:
        return [value.start, value.stop, value.step]
    if is_dataclass(kind):
        return {
            name: _encode(entry, getattr(value, name), f"{place}/{name}", arrays)
            for name, entry in _fields(kind).items()
        }
    if kind in MAPPINGS:  # as pairs, because keys in JSON are strings
        return [[key, _encode(inner[1], entry, f"{place}/{key}", arrays)]
                for key, entry in value.items()]  # fmt: skip
    if kind in (list, tuple):
        return [_encode(inner[0], entry, f"{place}/{n}", arrays) for n, entry in enumerate(value)]
    return value


def _decode(kind: Any, value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Decode a value that :func:`_encode` encoded."""
    kind, inner = _opened(kind)
    if value is None:
        return None
    if kind is np.ndarray:
        return arrays[value]
    if _is_settings(kind):
        return settings_from(load_target(value["class"]), value["values"])
    if kind is UserError:
        return _error_of_a_user(value)
    if kind in (range, Episode):
        return kind(*value)
    if is_dataclass(kind):
        constructor: Any = kind
        types = _fields(constructor)
        return constructor(
            **{name: _decode(types[name], entry, arrays) for name, entry in value.items()}
        )
    if kind in MAPPINGS:
        return {key: _decode(inner[1], entry, arrays) for key, entry in value}
    if kind in (list, tuple):
        return kind(_decode(inner[0], entry, arrays) for entry in value)
    return value


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _opened(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without `| None`, and its type arguments; `object` for other unions."""
    if isinstance(kind, UnionType):
        kinds = [member for member in get_args(kind) if member is not NoneType]
        return _opened(kinds[0]) if len(kinds) == 1 else (object, ())
    return get_origin(kind) or kind, get_args(kind)


_hints = cache(get_type_hints)


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, by name."""
    return _hints(kind)


def _error_of_a_user(fields: Mapping[str, Any]) -> UserError:
    kind = vars(errors)[fields["class"]]
    if not issubclass(kind, UserError):
        raise ValueError(f"{fields['class']} is no error of a user")
    return kind(fields["message"], hint=fields["hint"])


def settings_from(kind: type[Section], values: Mapping[str, Any]) -> Section:
    """Make settings from values that :func:`rlcore_simulation.values.plain` encoded, frozen."""
    settings = kind(**_sections(kind(), values))
    settings.freeze()
    return settings


def _sections(default: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Decode values; a nested settings section gets the class of its default."""
    decoded = {}
    for name, value in values.items():
        usual: Any = vars(default)[name]
        nested = is_dataclass(usual)
        decoded[name] = type(usual)(**_sections(usual, value)) if nested else restored(value)
    return decoded
