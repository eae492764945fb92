"""Define the commands to a simulator process, and its answers. Rows are numbered as in the env."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import numpy as np

from rlcore.contracts.errors import PluginError, UserError
from rlcore.contracts.protocols import Demonstration
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.simulator import SimulatorSource


@dataclass(frozen=True)
class Hosting:
    """First message to a process: host `rows` of a vector env of `num_envs` rows. No answer."""

    spec: EnvSpec
    source: SimulatorSource
    config: SimulatedEnvConfig
    rows: range
    num_envs: int


@dataclass(frozen=True)
class Reset:
    """Start these episodes; answered by :class:`Started`, with observations in the shared
    block."""

    episodes: dict[int, Episode]


@dataclass(frozen=True)
class Started:
    """The sentences of the rows that were started."""

    sentences: dict[int, str]


@dataclass(frozen=True)
class Play:
    """Play a chunk: actions float32 `[R, C, A]` for the R rows of the process; answered by
    :class:`Played`. `render_terminated`: also draw the last frame of episodes that terminated;
    `render_final`: of those that were truncated."""

    actions: np.ndarray
    render_terminated: bool
    render_final: bool


@dataclass(frozen=True)
class Played:
    """What came of a chunk: rewards float32 `[R, C]`, the others bool `[R, C]`, success `[R]`;
    infos: each row's last values by name."""

    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    success: np.ndarray
    infos: list[dict[str, float]]


@dataclass(frozen=True)
class Demonstrate:
    """Play an expert episode; answered by a :class:`rlcore.contracts.protocols.Demonstration`."""

    episode: Episode
    action_noise: float
    speed: float
    stride: int
    seed: int
    max_steps: int


@dataclass(frozen=True)
class Record:
    """Keep every frame of these rows from now on; answered by None."""

    rows: tuple[int, ...]


@dataclass(frozen=True)
class TakeFrames:
    """Answered by the frames kept since the last time, `{row: [uint8 [H, W, 3], ...]}`."""


LONGEST = 10_000
"""Characters of a text in a :class:`Failure`; of a longer one beginning and end are kept."""
Command = Reset | Play | Demonstrate | Record | TakeFrames
Reply = Started | Played | Demonstration | dict[int, list[np.ndarray]] | None


@dataclass(frozen=True)
class Failure:
    """Answer to a command that raised.

    Attributes:
        summary, traceback: the exception in words.
        error: the exception itself where a user can mend it, as the nearest class of
            :mod:`rlcore.contracts.errors`: reading a plugin's own class would import the plugin.
        missing: the module that was not found, where that is why and nobody said what brings it;
            else empty.
    """

    summary: str
    traceback: str
    error: UserError | None = None
    missing: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The answer for an exception that is being handled, whatever its author made of it."""
        mendable = None
        if isinstance(error, UserError) and {"message", "hint"} <= vars(error).keys():
            ours = (kind for kind in type(error).__mro__ if kind.__module__ == UserError.__module__)
            hint = None if error.hint is None else _text(error.hint)
            mendable = next(ours)(_text(error.message), hint=hint)
        summary = _text(f"{type(error).__name__}: {_text(error)}")
        absent = error.__cause__ if isinstance(error, PluginError) else error
        missing = (absent.name or "") if isinstance(absent, ModuleNotFoundError) else ""
        return cls(summary, _text(traceback.format_exc()), mendable, missing)


def _text(value: object) -> str:
    """A text of an author's, of bearable length."""
    try:
        text = str(value)
    except Exception as error:
        return f"(a {type(value).__name__} that can't be shown: {type(error).__name__})"
    left_out = len(text) - LONGEST
    if left_out <= 0:
        return text
    return f"{text[: LONGEST // 2]} ... {left_out} characters left out ... {text[-LONGEST // 2 :]}"
