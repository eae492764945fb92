"""Map the features of a data set to cameras and channels of an env.

LeRobot's features have names and shapes, but no file states whether an action is absolute, its
unit, or whether +1 closes the gripper. The user states it in a YAML file; nothing is guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping as Table
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import ActionChannel, ActionMeaning, StateChannel
from rlcore.files.reading import UnreadableError, error_reason, read_yaml
from rlcore.run_folder.env_facts import EnvFacts
from rlcore_data_lerobot.index import IMAGES, Index

PAGE = "docs/your-data.md"
MEANINGS = get_args(ActionMeaning)
LARGEST = float(np.finfo(np.float32).max)
LARGEST_SIDE = 1 << 14  # of a frame, in pixels
_SOURCE = re.compile(r"([^\[\]]+?)(?:\[([^\[\]]+)\])?")


@dataclass(frozen=True)
class Camera:
    """A camera of the env.

    Attributes:
        feature: the feature with its frames.
        size: (height, width) to scale frames to; None: frames are not scaled.
        upside_down: whether frames must be rotated by 180 degrees.
    """

    feature: str
    size: tuple[int, int] | None = None
    upside_down: bool = False


@dataclass(frozen=True)
class Source:
    """The source of a channel's numbers: entries of a feature, times `scale`, plus `offset`.

    Attributes:
        entries: indices of the entries; None: all of them.
        bounds: range of an action, to which it is clipped; None: no clipping.
        channel: key of the channel in the description.
    """

    feature: str
    entries: tuple[int, ...] | None = None
    scale: float = 1.0
    offset: float = 0.0
    bounds: tuple[float, float] | None = None
    channel: str = ""

    def scaled(self, column: np.ndarray) -> np.ndarray:
        """Return float32 `[L, n]` from the feature's `[L, m]`, unclipped; infinite on overflow."""
        taken = column if self.entries is None else column[:, list(self.entries)]
        with np.errstate(over="ignore"):
            if (self.scale, self.offset) != (1.0, 0.0):
                taken = taken.astype(np.float64) * self.scale + self.offset
            return taken.astype(np.float32)

    def take(self, column: np.ndarray) -> np.ndarray:
        """Return float32 `[L, n]` from the feature's `[L, m]`, clipped to `bounds`."""
        taken = self.scaled(column)
        return taken if self.bounds is None else taken.clip(*self.bounds)


@dataclass(frozen=True)
class Mapping:
    """The mapping of a whole data set.

    Attributes:
        cameras: cameras of the env by name.
        states, actions: sources of the channels, in the env's order.
        facts: facts of the env that the data fits, as far as they are known.
        stride: rows from one used frame to the next.
    """

    cameras: Table[str, Camera]
    states: tuple[Source, ...]
    actions: tuple[Source, ...]
    facts: EnvFacts
    stride: int = 1

    @property
    def columns(self) -> list[str]:
        """Return the names of the features that states and actions use."""
        return list(dict.fromkeys(one.feature for one in (*self.states, *self.actions)))


@dataclass(frozen=True)
class Description:
    """A YAML file that names a data set and maps its features."""

    file: Path
    data: Path
    settings: Table[str, Any] = field(repr=False)


def read_description(file: Path) -> Description:
    """Read a description. Raises ConfigError if it is unreadable or names no data set."""
    try:
        settings = read_yaml(file, once=True)
    except (OSError, UnreadableError) as error:
        raise ConfigError(f"can't read {file}: {error_reason(error)}", hint=f"see {PAGE}") from None
    asked = _Asked(file, settings, "")
    asked.only("data", "cameras", "states", "actions", "stride")
    data = file.parent / asked.text("data", "the folder of the LeRobot data set")
    return Description(file, data, settings)


def mapping_of(description: Description, index: Index) -> Mapping:
    """Return the mapping that a description gives for its data set.

    Raises:
        ConfigError: a key is missing or invalid, or names a feature or entry that does not exist.
            The error names the key.
    """
    top = _Asked(description.file, description.settings, "")
    cameras, sizes = dict[str, Camera](), dict[str, list[int]]()
    for name, asked in top.each("cameras", "the env's cameras, each with its feature"):
        cameras[name] = camera = _camera(asked, index)
        sizes[name] = list(camera.size or _size_of(index.features[camera.feature]))
    states, state_channels = [], []
    for meaning, asked in top.each("states", "the env's state by its channels, in their order"):
        source, size = _source(asked, index, ())
        source = replace(source, channel=asked.key)
        states.append(source)
        state_channels.append(asdict(StateChannel(meaning, size)))
    actions, action_channels = [], []
    for meaning, asked in top.each("actions", "the env's action by its channels, in their order"):
        if meaning not in MEANINGS:
            raise asked.wrong(f"is none of {', '.join(MEANINGS)}")
        source, size = _source(asked, index, ("range", "frame", "convention"))
        low, high = asked.pair("range", (-1.0, 1.0))
        if not low < high or not math.isfinite(high - low):
            raise asked.wrong(f"expected a lower and a higher number, got [{low}, {high}]", "range")
        channel = ActionChannel(
            cast(ActionMeaning, meaning),
            size,
            low,
            high,
            frame=asked.text("frame", "", "base"),
            convention=asked.text("convention", "", ""),
        )
        actions.append(replace(source, bounds=(low, high), channel=asked.key))
        action_channels.append(asdict(channel))
    facts = EnvFacts("", sizes, state_channels, action_channels, {})
    stride = top.whole("stride", 1)
    return Mapping(cameras, tuple(states), tuple(actions), facts, stride)


def unknown(index: Index) -> ConfigError:
    """Return the error for a data set that has no description."""
    found = ", ".join(
        f"{name} {list(one['shape'])}"
        for name, one in index.features.items()
        if one["dtype"] in IMAGES or (len(one["shape"]) == 1 and one["shape"][0] > 1)
    )
    return ConfigError(
        f"the LeRobot data set {index.path} does not say what its numbers mean in an env: units, "
        f"absolute or delta, the gripper's sign ({found})",
        hint="write a YAML file with the keys data, cameras, states and actions, and set "
        f"collect.path to it: {PAGE}",
    )


def _camera(asked: _Asked, index: Index) -> Camera:
    if isinstance(asked.value, str):
        asked = _Asked(asked.file, {"from": asked.value}, asked.key)
    asked.only("from", "size", "upside_down")
    images = [name for name, one in index.features.items() if one["dtype"] in IMAGES]
    feature = asked.choice("from", "the feature with its frames", images)
    if _is_depth(index.features[feature]):
        raise asked.wrong(f"{feature} is a depth map, no camera", "from")
    size = asked.pair("size", None)
    if size and not all(float(one).is_integer() and 0 < one < LARGEST_SIDE for one in size):
        raise asked.wrong(f"expected height and width in pixels, got {list(size)}", "size")
    return Camera(
        feature,
        size and (int(size[0]), int(size[1])),
        asked.flag("upside_down"),
    )


def _is_depth(feature: Table[str, Any]) -> bool:
    """Return whether a feature is marked as a depth map, under any of LeRobot's names."""
    about = [feature, *(feature.get(name) for name in ("info", "video_info"))]
    flags = ("is_depth_map", "video.is_depth_map")
    return any(one.get(flag) is True for one in about if isinstance(one, dict) for flag in flags)


def _size_of(feature: Table[str, Any]) -> tuple[int, ...]:
    """Return (height, width) of frames; names show whether channels come first in the shape."""
    first = _names(feature.get("names"))[:1]
    shape: tuple[int, ...] = feature["shape"]
    return shape[1:] if first and first[0].startswith("channel") else shape[:2]


def _source(asked: _Asked, index: Index, more: tuple[str, ...]) -> tuple[Source, int]:
    """Return the source of a channel and its number of entries."""
    asked.only("from", "scale", "offset", *more)
    text = asked.text("from", "the feature, as observation.state or action[0:3]")
    found = _SOURCE.fullmatch(text)
    numbers = [name for name, one in index.features.items() if one["dtype"] not in IMAGES]
    if found is None or found[1] not in numbers:
        raise asked.wrong(
            f"{text!r} is no feature with numbers{choices_message(text, numbers)}", "from"
        )
    shape = index.features[found[1]]["shape"]
    width = math.prod(shape)
    entries = None if found[2] is None else _entries(asked, found[2], index, found[1], width)
    scale = asked.number("scale", f"by which {text} is to be multiplied to be the env's (1: equal)")
    if np.float32(scale) == 0:
        raise asked.wrong(
            f"expected a number other than 0, got {scale}: all would be equal", "scale"
        )
    source = Source(found[1], entries, scale, asked.number("offset", "", 0.0))
    return source, width if entries is None else len(entries)


def _entries(asked: _Asked, text: str, index: Index, feature: str, width: int) -> tuple[int, ...]:
    """Parse comma-separated entries: positions (`3`, `0:3`) or the feature's names of them."""
    names = _names(index.features[feature].get("names"))
    entries: list[int] = []
    for part in map(str.strip, text.split(",")):
        numbers = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", part)
        if part in names:
            entries.append(names.index(part))
        elif numbers:
            first, stop = int(numbers[1]), int(numbers[2] or int(numbers[1]) + 1)
            if not first < stop <= width:
                raise asked.wrong(f"{feature} has {width} entries, {text!r} names others", "from")
            entries += range(first, stop)
        else:
            raise asked.wrong(
                f"{feature} has no entry {part!r}{choices_message(part, names)}", "from"
            )
    if max(entries) >= width:
        raise asked.wrong(f"{feature} has {width} entries, {text!r} names others", "from")
    return tuple(entries)


def _names(names: Any) -> list[str]:
    """Return the names of entries in order.

    LeRobot writes lists, mappings to lists, and mappings from name to position; Unitree's converter
    writes nested lists.
    """
    if isinstance(names, dict):
        if all(isinstance(place, int) for place in names.values()):
            return [str(name) for name in sorted(names, key=names.__getitem__)]
        names = list(names.values())
    if isinstance(names, (list, tuple)):
        return [name for part in names for name in _names(part)]
    return [] if names is None else [str(names)]


@dataclass(frozen=True)
class _Asked:
    """A value of a description with its file and key, which errors name."""

    file: Path
    value: Any
    key: str

    def wrong(self, says: str, name: str = "") -> ConfigError:
        key = ".".join(filter(None, (self.key, name)))
        return ConfigError(f"{self.file}: {key or 'the file'}: {says}", hint=f"see {PAGE}")

    def only(self, *names: str) -> None:
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected keys {', '.join(names)}, got {self.value!r}")
        for name in self.value:
            if name not in names:
                raise self.wrong(
                    f"there is no such key{choices_message(str(name), names)}", str(name)
                )

    def each(self, name: str, what: str) -> list[tuple[str, _Asked]]:
        found = self._get(name, what, dict, ...)
        key = ".".join(filter(None, (self.key, name)))
        return [
            (str(one), _Asked(self.file, value, f"{key}.{one}")) for one, value in found.items()
        ]

    def text(self, name: str, what: str, default: Any = ...) -> str:
        return str(self._get(name, what, str, default))

    def choice(self, name: str, what: str, choices: list[str]) -> str:
        found = self.text(name, what)
        if found not in choices:
            raise self.wrong(f"{found!r} is no such feature{choices_message(found, choices)}", name)
        return found

    def number(self, name: str, what: str, default: Any = ...) -> float:
        found = self._get(name, what, (int, float), default)
        if not abs(found) <= LARGEST:
            raise self.wrong(f"expected a finite number, got {found}", name)
        return float(found)

    def whole(self, name: str, default: int) -> int:
        found = self._get(name, "", int, default)
        if found < 1:
            raise self.wrong(f"expected 1 or more, got {found}", name)
        return int(found)

    def flag(self, name: str) -> bool:
        return bool(self._get(name, "", bool, False))

    def pair(self, name: str, default: Any) -> Any:
        found = self._get(name, "", (list, tuple), default) if name in self.value else default
        if name in self.value and not (
            len(found) == 2
            and all(isinstance(one, (int, float)) for one in found)
            and all(abs(one) <= LARGEST for one in found)
        ):
            raise self.wrong(f"expected two numbers, got {found!r}", name)
        return found and (found[0], found[1])

    def _get(self, name: str, what: str, kind: Any, default: Any) -> Any:
        found = self.value.get(name, default)
        if found is ...:
            raise self.wrong(f"is missing: {what}", name)
        wrong_bool = isinstance(found, bool) and kind is not bool
        if wrong_bool or not isinstance(found, kind):
            names = kind if isinstance(kind, tuple) else (kind,)
            words = {
                dict: "a mapping",
                str: "text",
                list: "a list",
                tuple: "",
                bool: "true or false",
            }
            wanted = words.get(names[0], "a number")
            raise self.wrong(f"expected {wanted}, got {found!r}", name)
        return found
