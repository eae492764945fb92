"""What an env hands out and is handed, held against its spec.

The one rule for it: env workers let nothing else through, and the conformance checks ask the same.
Each function gives the first :class:`Fault` it finds, or None. Knows no worker and no policy. Types
and shapes are looked at, pixels never: what it costs does not grow with the frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.answers import Fault, array_fault, described, first_fault, kind_of, numbers_fault
from rlcore.errors import WorkerError
from rlcore.protocols import ChunkResult, Demonstration
from rlcore.specs import EnvSpec, StateChannel

KEYS = ("cameras", "states", "task_descriptions", "elapsed")
TRUTHS = "iuf"  # kinds of types that may hold 0 and 1 for bool
CLEAN = "a policy can't act on it: end the episode, or clean the state"
PADDING = "valid is true up to and with the first end, and nothing is rewarded after it"


def observation_fault(
    spec: EnvSpec, num_envs: int, observation: Any, seen: np.ndarray
) -> Fault | None:
    """Of an :class:`rlcore.protocols.Observation`.

    Args:
        seen: bool `[B]`, rows that somebody is going to look at; values of others are free.
    """
    if not isinstance(observation, Mapping) or set(observation) != set(KEYS):
        told = sorted(observation) if isinstance(observation, Mapping) else kind_of(observation)
        return Fault("the observation", f"{told}", f"a mapping of {sorted(KEYS)}",
                     "see rlcore.protocols.Observation")  # fmt: skip
    cameras, names = observation["cameras"], [camera.name for camera in spec.cameras]
    found = list(cameras) if isinstance(cameras, Mapping) else kind_of(cameras)
    if found != names:
        return Fault("cameras", f"{found}", f"{names} in this order",
                     "policies take cameras in the order of spec.cameras")  # fmt: skip
    for camera in spec.cameras:
        shape = (num_envs, camera.height, camera.width, 3)
        fault = array_fault(f"camera {camera.name!r}", cameras[camera.name], np.uint8, shape)
        if fault is not None:
            return fault
    states, elapsed = observation["states"], observation["elapsed"]
    return (
        array_fault("states", states, np.float32, (num_envs, spec.state_dim))
        or array_fault("elapsed", elapsed, np.float32, (num_envs,))
        or _states_fault(spec, states, seen)
        or first_fault(
            ~np.isfinite(elapsed) & seen,
            "elapsed",
            elapsed,
            "a finite number",
            "elapsed is steps / max_episode_steps",
        )
        or _sentences_fault(observation["task_descriptions"], num_envs, seen)
    )


def chunk_fault(
    spec: EnvSpec,
    num_envs: int,
    length: int,
    result: Any,
    running: np.ndarray,
    solved: np.ndarray,
) -> Fault | None:
    """Of a :class:`rlcore.protocols.ChunkResult`.

    Args:
        length: C, steps of the chunk.
        running: bool `[B]`, rows that had an episode when the chunk began; others are free.
        solved: bool `[B]`, rows whose episode had succeeded then.
    """
    if not isinstance(result, ChunkResult):
        return Fault("the answer to a chunk", kind_of(result), "a ChunkResult",
                     "see rlcore.protocols.ChunkResult")  # fmt: skip
    shape = (num_envs, length)
    fault = numbers_fault("rewards", result.rewards, shape)
    for name in ("terminated", "truncated", "valid"):
        fault = fault or array_fault(name, vars(result)[name], np.bool_, shape)
    fault = fault or _truth_fault("success", result.success, (num_envs,), running)
    if fault is not None:
        return fault
    return (
        _course_fault(result, running, solved)
        # of a row that terminated nobody sees the end
        or observation_fault(
            spec, num_envs, result.observation, running & ~result.terminated.any(axis=1)
        )
    )


def accepted(result: ChunkResult) -> ChunkResult:
    """A result without a fault in the types of the contract: what says the same in others, as a
    success of 1.0, is converted."""
    result.rewards = np.asarray(result.rewards, dtype=np.float32)
    result.success = np.asarray(result.success == 1, dtype=bool)
    return result


def demonstration_fault(spec: EnvSpec, demonstration: Any) -> Fault | None:
    """Of a :class:`rlcore.protocols.Demonstration`."""
    if not isinstance(demonstration, Demonstration):
        return Fault("the answer to demonstrate", kind_of(demonstration), "Demonstrations",
                     "see rlcore.protocols.Demonstration")  # fmt: skip
    actions, states = demonstration.actions, demonstration.states
    length = len(actions) if isinstance(actions, np.ndarray) and actions.ndim else 0
    if length == 0:
        return Fault("actions", described(actions), "at least one step",
                     "an episode has at least one step")  # fmt: skip
    every = np.ones(length, dtype=bool)
    fault = (
        array_fault("actions", actions, np.float32, (length, spec.action_dim))
        or array_fault("states", states, np.float32, (length, spec.state_dim))
        or _at_step(_states_fault(spec, states, every))
        or _at_step(
            first_fault(
                ~np.isfinite(actions).all(axis=1),
                "actions",
                actions,
                "finite numbers",
                "policies learn from them",
            )
        )
        or _steps_fault(demonstration.frame_steps, length)
    )
    if fault is not None:
        return fault
    names, frames = [camera.name for camera in spec.cameras], demonstration.frames
    found = list(frames) if isinstance(frames, Mapping) else kind_of(frames)
    if found != names:
        return Fault("frames", f"of cameras {found}", f"{names} in this order",
                     "key frames by camera, in the order of spec.cameras")  # fmt: skip
    for camera in spec.cameras:
        shape = (len(demonstration.frame_steps), camera.height, camera.width, 3)
        what = f"frames of {camera.name!r}"
        fault = fault or array_fault(what, frames[camera.name], np.uint8, shape)
    one = np.ones(1, dtype=bool)
    return (
        fault
        or _truth_fault("success", np.asarray([demonstration.success]), (1,), one)
        or _sentences_fault([demonstration.task_description], 1, one)
    )


def frames_fault(spec: EnvSpec, frames: Sequence[Any]) -> Fault | None:
    """Of recorded frames: of the size of a camera."""
    sizes = [(camera.height, camera.width, 3) for camera in spec.cameras]
    for frame in frames:
        right = isinstance(frame, np.ndarray) and frame.dtype == np.uint8
        if not right or frame.shape not in sizes:
            return Fault("a recorded frame", described(frame), "uint8 of a camera's size",
                         "record what a camera of the spec sees")  # fmt: skip
    return None


# -- parts ------------------------------------------------------------------------------------


def _truth_fault(what: str, value: Any, shape: tuple[int, ...], seen: np.ndarray) -> Fault | None:
    """Whether it says yes or no for each row that is seen: bool, or numbers that are 0 or 1."""
    hint = "say true or false: whether the episode has succeeded so far"
    if (
        not isinstance(value, np.ndarray)
        or value.shape != shape
        or value.dtype.kind not in "b" + TRUTHS
    ):
        return Fault(what, described(value), f"bool {list(shape)}", hint)
    if value.dtype.kind == "b":
        return None
    return first_fault(~np.isin(value, (0, 1)) & seen, what, value, "true or false", hint)


def _course_fault(result: ChunkResult, running: np.ndarray, solved: np.ndarray) -> Fault | None:
    """Whether rewards, ends and the steps that count go together; rows that ran only."""
    ran = running[:, None]
    with np.errstate(over="ignore"):
        finite = np.isfinite(result.rewards.astype(np.float32, copy=False))
    ends = result.terminated | result.truncated
    over = np.cumsum(ends, axis=1) - ends > 0  # steps after the first end
    valid, success = result.valid, result.success == 1
    rules: tuple[tuple[np.ndarray, str, np.ndarray | str, str, str], ...] = (
        (
            running & ~valid.any(axis=1),
            "valid", valid, "at least one true: the episode is still running", PADDING,
        ),
        (
            ~finite & ran,
            "the reward", result.rewards, "a finite number",
            "a reward must be a number even if something went wrong",
        ),
        (
            result.terminated & result.truncated & ran,
            "a step", "terminated and truncated", "one of the two",
            "a termination takes precedence: truncated = limit reached and not terminated",
        ),
        (
            ends & over & ran,
            "an end", "flagged after the first one", "one end", "flag an end at its own step only",
        ),
        (
            (valid == over) & ran,
            "valid", valid, "true until the episode ends, false after that", PADDING,
        ),
        (
            (result.rewards != 0) & over & ran,
            "the reward of a step after the end", result.rewards, "0", PADDING,
        ),
        (
            solved & running & ~success,
            "success", "false again", "true until the reset",
            "success is sticky: whether the episode has succeeded so far",
        ),
    )  # fmt: skip
    found = (first_fault(*rule) for rule in rules)
    return next((fault for fault in found if fault is not None), None)


def _states_fault(spec: EnvSpec, states: np.ndarray, seen: np.ndarray) -> Fault | None:
    finite = np.isfinite(states)
    if finite.all():
        return None
    bad = ~finite & seen[:, None]
    if not bad.any():
        return None
    row, entry = (int(place) for place in np.argwhere(bad)[0])
    what = f"states entry {entry} ({_meaning(spec.states, entry)})"
    return Fault(what, f"{states[row, entry]}", "a finite number", CLEAN, row)


def _meaning(channels: Sequence[StateChannel], entry: int) -> str:
    """The channel of an entry, and which of its numbers it is."""
    for channel in channels:
        if entry < channel.size:
            return channel.meaning if channel.size == 1 else f"{channel.meaning} {entry}"
        entry -= channel.size
    raise IndexError(entry)


def _sentences_fault(sentences: Any, rows: int, seen: np.ndarray) -> Fault | None:
    hint = "one string a row, of the task the row plays"
    if not isinstance(sentences, (list, tuple)) or len(sentences) != rows:
        told = f"{len(sentences)} entries" if isinstance(sentences, (list, tuple)) else (
            kind_of(sentences)
        )  # fmt: skip
        return Fault("task_descriptions", told, f"a list of {rows} sentences", hint)
    for row in np.flatnonzero(seen).tolist():
        if not (isinstance(sentences[row], str) and sentences[row].strip()):
            return Fault("the sentence", repr(sentences[row]), "words", hint, row)
    return None


def _steps_fault(steps: Any, length: int) -> Fault | None:
    right = isinstance(steps, np.ndarray) and steps.ndim == 1 and steps.dtype == np.int64
    if right and len(steps) and (np.diff(steps) > 0).all() and 0 <= steps[0] <= steps[-1] < length:
        return None
    told = str(steps.tolist()[:5]) if right else described(steps)
    return Fault("frame_steps", told, f"int64, ascending, in [0, {length - 1}]",
                 "a frame before steps 0, stride, 2 stride, ...")  # fmt: skip


def _at_step(fault: Fault | None) -> Fault | None:
    """Rows of a demonstration are its steps."""
    return None if fault is None else Fault(fault.what, fault.found, fault.expected, fault.hint,
                                            step=fault.row)  # fmt: skip


def checked_actions(spec: EnvSpec, num_envs: int, actions: np.ndarray) -> np.ndarray:
    """The actions of a chunk, float32 `[B, C, A]`.

    Raises:
        ValueError: another shape.
        WorkerError: entries that are not finite.
    """
    actions = np.asarray(actions, dtype=np.float32)
    if actions.ndim != 3 or actions.shape[::2] != (num_envs, spec.action_dim):
        raise ValueError(
            f"actions must be [{num_envs}, C, {spec.action_dim}], got {list(actions.shape)}"
        )
    bad = np.flatnonzero(~np.isfinite(actions).all(axis=(1, 2)))
    if bad.size:
        raise WorkerError(
            f"actions of rows {bad.tolist()} are not finite: the policy has diverged",
            hint="look at actor/grad_norm, and lower actor.optim.lr",
        )
    return actions
