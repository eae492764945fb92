"""Commands, answers and what they hold, as messages of the wire, and back.

What travels by its name (settings, errors) is looked up on the other side among its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any, NamedTuple

import numpy as np

from rlcore import errors
from rlcore.config.schema import Settings
from rlcore.errors import UserError
from rlcore.protocols import Demonstration
from rlcore.specs import ActionChannel, CameraSpec, EnvSpec, Episode, StateChannel
from rlcore.targets import load_target
from rlcore_simulation.messages import (
    Command,
    Demonstrate,
    Failure,
    Hosting,
    Play,
    Played,
    Record,
    Reply,
    Reset,
    Started,
    TakeFrames,
)
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.simulator import SimulatorSource
from rlcore_simulation.values import address_of, plain, restored
from rlcore_simulation.wire import Message, WireError

Said = Command | Reply | Failure | Hosting


class Word(NamedTuple):
    """How one kind of message is told and understood."""

    tell: Callable[[Any], tuple[Mapping[str, Any], Mapping[str, np.ndarray]]]
    understand: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], Any]


Words = Mapping[str, Word]


def told(said: Said) -> Message:
    """The message of a command or an answer."""
    kind = "frames" if isinstance(said, dict) else type(said).__name__
    return Message(kind, *{**COMMANDS, **ANSWERS}[kind].tell(said))


def understood(message: Message, words: Words) -> Any:
    """The command or the answer of a message.

    Args:
        words: what the other side may say: :data:`COMMANDS` or :data:`ANSWERS`.

    Raises:
        WireError: it is none of these, or lacks a part.
    """
    if message.kind not in words:
        raise WireError(f"a message is a {message.kind!r}, which is none of {', '.join(words)}")
    try:
        return words[message.kind].understand(message.fields, message.arrays)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise WireError(f"a message {message.kind!r} can't be understood: {reason}") from error


# -- what a process is to host ----------------------------------------------------------------


def _tell_hosting(it: Hosting) -> Any:
    name = address_of(type(it.config), "the settings")
    values = {each: plain(value, f"env {each}") for each, value in asdict(it.config).items()}
    settings = {"class": name, "values": values}
    return {
        "spec": _plain_spec(it.spec),
        "source": asdict(it.source),
        "settings": settings,
        "rows": [it.rows.start, it.rows.stop],
        "num_envs": it.num_envs,
    }, {}


def _hosting(fields: Mapping[str, Any], _: Mapping[str, np.ndarray]) -> Hosting:
    return Hosting(
        _spec(fields["spec"]),
        SimulatorSource(**_with_tuples(fields["source"], "readers", "packages")),
        settings_from(load_target(fields["settings"]["class"]), fields["settings"]["values"]),
        range(*fields["rows"]),
        fields["num_envs"],
    )


def settings_from(kind: type[SimulatedEnvConfig], values: Mapping[str, Any]) -> SimulatedEnvConfig:
    """The settings of a plain mapping, frozen as they are in a run."""
    settings = kind(**_sections(kind(), values))
    settings.freeze()
    return settings


def _sections(default: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with the sections among them made again: of the class of their default."""
    made = {}
    for name, value in values.items():
        usual = vars(default)[name]
        made[name] = (
            type(usual)(**_sections(usual, value))
            if isinstance(usual, Settings)
            else restored(value)
        )
    return made


def _plain_spec(spec: EnvSpec) -> dict[str, Any]:
    ranges = {name: vars(spec)[name] for name in _RANGES}
    return asdict(spec) | {name: [r.start, r.stop, r.step] for name, r in ranges.items()}


def _spec(plain: Mapping[str, Any]) -> EnvSpec:
    made = _with_tuples(plain, *_TUPLES)
    made |= {name: range(*plain[name]) for name in _RANGES}
    made |= {name: tuple(of(**each) for each in plain[name]) for name, of in _PARTS.items()}
    made["task_groups"] = {name: tuple(tasks) for name, tasks in plain["task_groups"].items()}
    return EnvSpec(**made)


_RANGES = ("train_trials", "heldout_trials")
_TUPLES = [each.name for each in fields_of(EnvSpec) if str(each.type).startswith("tuple[")]
_PARTS = {"cameras": CameraSpec, "states": StateChannel, "actions": ActionChannel}


# -- commands and answers ---------------------------------------------------------------------


def _tell_played(it: Played) -> Any:
    arrays = {name: array for name, array in vars(it).items() if name != "infos"}
    return {"infos": it.infos}, arrays


def _demonstration(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Demonstration:
    frames = {name: arrays[f"frames/{name}"] for name in fields["cameras"]}
    return Demonstration(
        episode=Episode(*fields["episode"]),
        task_description=fields["task_description"],
        frames=frames,
        success=fields["success"],
        **{name: arrays[name] for name in _STEPS},
    )


def _tell_demonstration(it: Demonstration) -> Any:
    fields = {
        "episode": it.episode,
        "task_description": it.task_description,
        "success": bool(it.success),
        "cameras": list(it.frames),
    }
    frames = {f"frames/{name}": stack for name, stack in it.frames.items()}
    return fields, {**{name: vars(it)[name] for name in _STEPS}, **frames}


_STEPS = ("frame_steps", "states", "actions")


def _tell_frames(it: Mapping[int, list[np.ndarray]]) -> Any:
    return {"rows": list(it)}, {str(row): np.stack(frames) for row, frames in it.items()}


def _failure(fields: Mapping[str, Any], _: Mapping[str, np.ndarray]) -> Failure:
    mendable = fields["error"]
    if mendable is not None:
        kind = vars(errors)[mendable["class"]]
        if not issubclass(kind, UserError):
            raise ValueError(f"{mendable['class']} is no error of a user")
        mendable = kind(mendable["message"], hint=mendable["hint"])
    return Failure(fields["summary"], fields["traceback"], mendable, fields["missing"])


def _tell_failure(it: Failure) -> Any:
    error = it.error and {
        "class": type(it.error).__name__,
        "message": it.error.message,
        "hint": it.error.hint,
    }
    return {**vars(it), "error": error}, {}


def _by_row(values: Mapping[int, Any]) -> list[Any]:
    """JSON has texts as keys only."""
    return [[int(row), value] for row, value in values.items()]


def _with_tuples(plain: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """JSON has no tuples."""
    return {**plain, **{name: tuple(plain[name]) for name in names}}


COMMANDS: Words = {
    "Hosting": Word(_tell_hosting, _hosting),
    "Reset": Word(
        lambda it: ({"episodes": _by_row(it.episodes)}, {}),
        lambda fields, _: Reset({row: Episode(*each) for row, each in fields["episodes"]}),
    ),
    "Play": Word(
        lambda it: (
            {"render_terminated": it.render_terminated, "render_final": it.render_final},
            {"actions": it.actions},
        ),
        lambda fields, arrays: Play(**{**arrays, **fields}),
    ),
    "Demonstrate": Word(
        lambda it: (vars(it), {}),
        lambda fields, _: Demonstrate(**{**fields, "episode": Episode(*fields["episode"])}),
    ),
    "Record": Word(
        lambda it: ({"rows": it.rows}, {}),
        lambda fields, _: Record(tuple(fields["rows"])),
    ),
    "TakeFrames": Word(lambda it: ({}, {}), lambda fields, _: TakeFrames()),
}
ANSWERS: Words = {
    "Started": Word(
        lambda it: ({"sentences": _by_row(it.sentences)}, {}),
        lambda fields, _: Started(dict(fields["sentences"])),
    ),
    "Played": Word(_tell_played, lambda fields, arrays: Played(**{**arrays, **fields})),
    "Demonstration": Word(_tell_demonstration, _demonstration),
    "frames": Word(
        _tell_frames, lambda fields, arrays: {row: list(arrays[str(row)]) for row in fields["rows"]}
    ),
    "Failure": Word(_tell_failure, _failure),
    "NoneType": Word(lambda it: ({}, {}), lambda fields, _: None),
}
