"""Values of settings on their way to a simulator process."""

from __future__ import annotations

import datetime
import json
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


Local = Enum("Inside", "A", qualname="local.<locals>.Inside")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (datetime.date(2026, 1, 2), "datetime.date"),
        (Sides.LEFT | Sides.RIGHT, "test_values.Sides"),
        ({1}, "builtins.set"),
        (np.zeros(9), "numpy.ndarray"),
        (Local.A, "local.<locals>.Inside"),
    ],
)
def test_a_value_of_another_type_is_refused(refused, value: Any, type_name: str) -> None:
    with refused(ConfigError, "env x.day[0]", type_name, text=False):  # Python shows the value
        plain({"day": [value]}, "env x")


def test_a_mark_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError):
        restored({"!pickle": "x"})
