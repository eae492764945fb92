"""Every command and answer, over the wire and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from line_simulator import LineAssetError, LineConfig, env_spec
from rlcore_simulation.messages import (
    Demonstrate,
    Failure,
    Hosting,
    Play,
    Played,
    Record,
    Reset,
    Started,
    TakeFrames,
)
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.translate import ANSWERS, COMMANDS, decode, encode, settings_from
from rlcore_simulation.wire import Message, WireError, pack, unpack

from rlcore.config.schema import VideoConfig
from rlcore.contracts.errors import AssetError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import Episode

SOURCE = SimulatorSource(
    "line_simulator:make_pool",
    name="line",
    environment={"GL": "soft"},
    readers=("gl",),
    packages=("more",),
)
CONFIG = LineConfig(tasks=["left"], video_cfg=VideoConfig(fps=7), sentences={"left": "go"})
SPEC = replace(
    env_spec(CONFIG), task_groups={"all": ("left", "right")}, train_trials=range(0, 9, 2)
)
BOOLS = np.array([[True, False]])
MESSAGES: list[tuple[Any, Any]] = [
    (COMMANDS, Hosting(SPEC, SOURCE, CONFIG, range(2, 5), 8)),
    (COMMANDS, Reset({3: Episode(1, 2, 3, 4), 0: Episode(0, 10_000)})),
    (COMMANDS, Play(np.ones((2, 5, 1), np.float32), render_terminated=True, render_final=False)),
    (COMMANDS, Demonstrate(Episode(0, 1), 0.1, 0.5, 3, 7, 50)),
    (COMMANDS, Record((1, 4))),
    (COMMANDS, TakeFrames()),
    (ANSWERS, Started({3: "go left", 0: "größer"})),
    (
        ANSWERS,
        Played(
            np.ones((1, 2), np.float32), BOOLS, BOOLS, BOOLS, BOOLS[0], [{"gap": 0.1, "n": 2.0}]
        ),
    ),
    (
        ANSWERS,
        Demonstration(
            Episode(0, 1),
            "go",
            {"front": np.zeros((2, 4, 4, 3), np.uint8), "wrist": np.ones((2, 1, 1, 3), np.uint8)},
            np.array([0, 2]),
            np.zeros((3, 1), np.float32),
            np.ones((3, 1), np.float32),
            True,
        ),
    ),
    (ANSWERS, {4: [np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8)]}),
    (ANSWERS, Failure("ValueError: no", "Traceback ...")),
    (ANSWERS, None),
]


def same(one: Any, other: Any) -> bool:
    """Equal in value and in kind, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tolist() == other.tolist()
    if is_dataclass(one):
        return all(same(vars(one)[f.name], vars(other)[f.name]) for f in fields(one))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize(("kinds", "message"), MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_survives_the_round_trip(kinds: Any, message: Any) -> None:
    assert same(decode(unpack(pack(encode(message))), kinds), message)


def test_every_kind_of_message_is_among_these() -> None:
    known = [encode(message).kind for _, message in MESSAGES]
    assert sorted(known) == sorted([*COMMANDS, *ANSWERS])


def test_a_user_error_comes_as_the_nearest_class_of_ours() -> None:
    error = Failure.of(LineAssetError("no scene", hint="get it"))
    found = decode(unpack(pack(encode(error))), ANSWERS).error
    assert type(found) is AssetError
    assert (found.message, found.hint) == ("no scene", "get it")


@pytest.mark.parametrize(
    "message",
    [
        Message("Nonsense"),
        encode(Record((1,))),  # an answer is never a command
        Message("Started"),
        Message("Played", {"content": {"infos": []}}),
        Message("Failure", {"content": {"summary": "", "error": {"class": "errno"}}}),
    ],
    ids=lambda message: message.kind,
)
def test_a_message_that_is_no_answer_is_refused(refused, message: Message) -> None:
    with refused(WireError, message.kind, text=False):  # Python words the cause
        decode(message, ANSWERS)


def test_an_info_that_is_no_number_is_refused(refused) -> None:
    played = replace(MESSAGES[7][1], infos=[{"gap": np.zeros(2)}])
    with refused(WireError):
        pack(encode(played))


def test_settings_are_frozen_as_in_a_run() -> None:
    settings = settings_from(LineConfig, {"pause": 0.5, "video_cfg": {"fps": 3}})
    assert isinstance(settings, LineConfig) and settings.pause == 0.5
    assert settings.video_cfg == VideoConfig(fps=3)
    with pytest.raises(AttributeError):
        settings.pause = 1.0
