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
SAID: list[tuple[Any, Any]] = [
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


@pytest.mark.parametrize(("words", "said"), SAID, ids=lambda each: type(each).__name__)
def test_what_is_said_comes_back_as_it_was(words: Any, said: Any) -> None:
    assert same(decode(unpack(pack(encode(said))), words), said)


def test_all_words_are_among_these() -> None:
    known = [encode(said).kind for _, said in SAID]
    assert sorted(known) == sorted([*COMMANDS, *ANSWERS])


def test_an_error_a_user_can_mend_comes_as_the_nearest_of_ours() -> None:
    error = Failure.of(LineAssetError("no scene", hint="get it"))
    found = decode(unpack(pack(encode(error))), ANSWERS).error
    assert type(found) is AssetError
    assert (found.message, found.hint) == ("no scene", "get it")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message("Nonsense"), "'Nonsense', which is none of Started, Played"),
        (encode(Record((1,))), "'Record', which is none of"),  # an answer is never a command
        (encode(SAID[0][1]), "'Hosting', which is none of"),
        (Message("Started"), "'Started' can't be understood: KeyError"),
        (Message("Played", {"content": {"infos": []}}), "'Played' can't be understood: TypeError"),
        (
            Message("Failure", {"content": {"summary": "", "error": {"class": "errno"}}}),
            "'Failure' can't be understood: TypeError: issubclass",
        ),
    ],
)
def test_an_answer_that_is_none_is_one_error(message: Message, said: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(message, ANSWERS)
    assert said in caught.value.message


def test_an_info_that_is_no_number_is_one_error() -> None:
    played = replace(SAID[7][1], infos=[{"gap": np.zeros(2)}])
    with pytest.raises(WireError, match="neither a number nor a text"):
        pack(encode(played))


def test_settings_are_frozen_as_in_a_run() -> None:
    settings = settings_from(LineConfig, {"pause": 0.5, "video_cfg": {"fps": 3}})
    assert isinstance(settings, LineConfig) and settings.pause == 0.5
    assert settings.video_cfg == VideoConfig(fps=3)
    with pytest.raises(AttributeError, match="frozen"):
        settings.pause = 1.0
