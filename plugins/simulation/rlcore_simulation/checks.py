"""Check what an env of simulators is given: existing episodes, valid steps, rendered frames."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlcore.contracts.errors import ConfigError, EnvError
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.validation.faults import NUMBERS, described, kind_of
from rlcore_simulation.detail import FilmFrames
from rlcore_simulation.simulator import AnySimulator, Step

STEP = "the env is at fault: see rlcore_simulation.simulator.Step"


def checked_episode(spec: EnvSpec, episode: Episode) -> Episode:
    """The episode.

    Raises:
        ConfigError: its task or trial is out of range.
    """
    if not 0 <= episode.task < len(spec.tasks) or episode.trial < 0:
        raise ConfigError(
            f"episode {tuple(episode)}: task must be in [0, {len(spec.tasks) - 1}] and "
            "trial at least 0"
        )
    return episode


def counted_episodes(
    spec: EnvSpec, split: str, slots: Iterable[int], *, seed: int
) -> list[Episode]:
    """Episodes for a reset that names none: row by row the next task, trials counted from `seed`.

    Args:
        spec: of the env.
        split: whose trials.
        slots: numbers of the rows among those of all workers.
        seed: of the reset.
    """
    tasks, trials = len(spec.tasks), spec.trials(split)
    return [Episode(slot % tasks, trials[(seed + slot // tasks) % len(trials)]) for slot in slots]


def started(simulator: AnySimulator, episode: Episode, where: str) -> str:
    """Start an episode; its sentence. `where` says which task and trial.

    Raises:
        EnvError: the sentence is no text.
    """
    sentence = simulator.start(episode)
    if not isinstance(sentence, str):
        hint = "the env is at fault: start() returns the sentence of the episode"
        raise _wrong("sentence", sentence, where, "a text", hint)
    return str(sentence)  # of numpy's texts, too


def checked_step(outcome: Any, where: str) -> Step:
    """The result of a simulator's step in Python's own numbers: with those of numpy the same sum
    comes out differently under another version. `where` says at which task, trial and step.

    Raises:
        EnvError: it is not a Step, its reward or an info is not a number, or its success is neither
            true nor false.
    """
    if not isinstance(outcome, Step):
        raise _wrong("step", outcome, where, "a Step")
    if not isinstance(outcome.info, Mapping):
        raise _wrong("info", outcome.info, where, "a mapping of names to numbers")
    infos = {}
    for name, value in outcome.info.items():
        if not isinstance(name, str):
            raise _wrong("name of an info", name, where, "a text")
        infos[str(name)] = _number(f"info {name!r}", value, where)
    success = _whether("success", outcome.success, where, "the task is solved")
    over = _whether("over", outcome.over, where, "the scene can go on")
    return Step(_number("reward", outcome.reward, where), success, infos, over)


def checked_states(simulator: AnySimulator, spec: EnvSpec, where: str) -> np.ndarray:
    """The simulator's states, float32 `[S]`, a copy; `where` says at which task, trial and step.

    Raises:
        EnvError: they are no numbers, or of another size, which numpy might stretch to fit.
    """
    entries = "the entries that spec.states lists"
    return floats("simulator's states", simulator.states, (spec.state_dim,), where, entries)


def floats(what: str, given: Any, shape: tuple[int, ...], where: str, entries: str) -> np.ndarray:
    """Numbers of an author's as float32 of this shape, a copy.

    Raises:
        EnvError: they are none, or of another shape.
    """
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.shape != shape or array.dtype.kind not in NUMBERS:
        found = described(given) if isinstance(given, np.ndarray) else shown(given)
        raise EnvError(
            f"the {what} are {found} in {where}, expected float32 {list(shape)}",
            hint=f"the env is at fault: give {entries}",
        )
    return array.astype(np.float32)


def draw_into(simulator: AnySimulator, out: Mapping[str, np.ndarray]) -> None:
    """Let the simulator write the current frame of every camera into `out`, uint8 `[H, W, 3]` by
    name; into :class:`FilmFrames`, those of a film.

    Raises:
        EnvError: it replaced the arrays instead of writing into them, or wrote what is no pixels.
    """
    frames = {name: Frame.of(name, array) for name, array in out.items()}
    given: dict[str, np.ndarray] = (FilmFrames if isinstance(out, FilmFrames) else dict)(frames)
    simulator.draw(given)
    for name, frame in frames.items():
        if given.get(name) is not frame:
            raise EnvError(
                f"the simulator's draw replaces out[{name!r}] instead of writing into it",
                hint=f"the env is at fault: out[{name!r}][:] = frame",
            )


class Frame(np.ndarray):
    """A camera's frame to draw into, a view of the memory that takes it. It takes pixels as they
    are: numpy's assignment makes a picture in [0, 1] black, and 256 black, without a word."""

    camera = ""

    @classmethod
    def of(cls, camera: str, array: np.ndarray) -> Frame:
        """A view of an array."""
        frame = array.view(cls)
        frame.camera = camera
        return frame

    def __array_finalize__(self, whole: np.ndarray | None) -> None:
        if isinstance(whole, Frame):  # a part of it, as frame[:8]
            self.camera = whole.camera

    def __setitem__(self, place: Any, value: Any) -> None:
        if self.dtype != np.uint8:  # np.zeros_like(frame, dtype=float) is one too
            super().__setitem__(place, value)
            return
        pixels = np.asarray(value)
        if pixels.dtype != np.uint8:
            fits = pixels.dtype.kind in "iu" and pixels.size
            if not fits or pixels.min() < 0 or pixels.max() > 255:
                raise self._refused(pixels, "give pixels from 0 to 255 as uint8")
        try:
            super().__setitem__(place, pixels)
        except ValueError:
            shape = f"its frame is uint8 {list(self.shape)}"
            raise self._refused(pixels, f"{shape}; spec.cameras says of which size") from None

    def _refused(self, pixels: np.ndarray, hint: str) -> EnvError:
        seen = (
            f", {pixels.min()} to {pixels.max()}"
            if pixels.size and pixels.dtype.kind in NUMBERS
            else ""
        )
        return EnvError(
            f"the simulator draws {pixels.dtype} {list(pixels.shape)}{seen}, into a frame of "
            f"camera {self.camera!r}",
            hint=f"the env is at fault: {hint}",
        )


def shown(value: object) -> str:
    """A value of an author's in a few words, whatever it is."""
    try:
        return reprlib.repr(value)
    except Exception:
        return kind_of(value)


def _number(what: str, value: Any, where: str) -> float:
    one = _one(value)
    if one is None:
        raise _wrong(what, value, where, "a number")
    return one


def _whether(what: str, value: Any, where: str, meaning: str) -> bool:
    one = _one(value)
    if one not in (False, True):  # nan would count as true
        hint = f"the env is at fault: Step.{what} must say whether {meaning}"
        raise _wrong(what, value, where, "true or false", hint)
    return bool(one)


def _one(value: Any) -> float | None:
    """The number that a value is, also as an array of one entry; None if it is none."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.size == 1 else None
    if isinstance(value, (str, bytes, bytearray, np.complexfloating)):
        return None
    try:
        return float(value)
    except Exception:  # each library has its own for what is no number
        return None


def _wrong(what: str, value: Any, where: str, wanted: str, hint: str = STEP) -> EnvError:
    return EnvError(
        f"the simulator's {what} is {shown(value)} in {where}, expected {wanted}", hint=hint
    )
