"""Values of settings on their way to a simulator process."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line_simulator import LineConfig, env_spec
from rlcore_simulation.messages import Hosting
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.translate import COMMANDS, decode, encode
from rlcore_simulation.values import plain, restored
from rlcore_simulation.wire import pack, unpack

from rlcore.contracts.errors import ConfigError


class Side(Enum):
    LEFT = (-1, "left")


class Level(IntEnum):
    HARD = 3


class Word(str, Enum):
    GO = "go"


class Sides(Flag):
    LEFT = 1
    RIGHT = 2


@dataclass
class RichConfig(LineConfig):
    assets: Path = Path("/data/a b")
    size: tuple[int, ...] = (4, 8)
    side: Side = Side.LEFT
    gains: dict[int, Any] = field(default_factory=lambda: {1: [0.5, (Level.HARD,)], 2: {}})


def crossed(value: Any) -> Any:
    return restored(json.loads(json.dumps(plain(value, "env x"))))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 2**80, 0.1, "größer", [], {}, (), [1, ["a", (2,)]], {"a": {"b": (1,)}}),
        *(Path("a/b"), Side.LEFT, Level.HARD, Word.GO, {1: 2.0, "1": 3.0}, {(1, 2): Path("x")}),
        *({"!tuple": [1]}, {"a": 1, "!path": 2}, {Side.LEFT: None}, {None: 0, True: 1}),
    ],
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = crossed(value)
    assert found == value and type(found) is type(value) and repr(found) == repr(value)


def test_numpys_numbers_are_numbers() -> None:
    assert crossed([np.float64(0.5), np.int64(3), np.str_("a")]) == [0.5, 3, "a"]


def test_settings_of_all_kinds_reach_a_process() -> None:
    config = RichConfig()
    source = SimulatorSource("line_simulator:make_pool", name="line")
    hosting = Hosting(env_spec(config), source, config, range(1), 1)
    found = decode(unpack(pack(encode(hosting))), COMMANDS).config
    assert found == config and type(found.gains[1][1][0]) is Level


def local() -> Enum:
    return Enum("Inside", "A", qualname="local.<locals>.Inside").A  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: datetime.date(2026, 1, 2), r"^env x\.day\[0\] is a datetime.date, which .*2026"),
        (lambda: Sides.LEFT | Sides.RIGHT, r"env x\.day\[0\] is a .*test_values.Sides, which"),
        (lambda: {1}, r"env x\.day\[0\] is a builtins.set"),
        (lambda: np.zeros(9), r"env x\.day\[0\] is a numpy.ndarray"),
        (local, r"is of the class local.<locals>.Inside of .*, which a simulator process can't"),
    ],
)
def test_what_can_not_be_told_is_named(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plain({"day": [made()]}, "env x")


def test_what_comes_from_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="a value is a '!pickle'"):
        restored({"!pickle": "x"})
