"""Make an env of gymnasium, read its observations, and measure what holds of it.

Run as a script, with `{"id", "kwargs"}` as JSON on standard input, it prints the facts as JSON. It
imports gymnasium and numpy alone, so that it runs in any interpreter that has the env.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

REGISTER = ("gymnasium_robotics", "shimmy", "ale_py", "minigrid", "panda_gym", "highway_env")
"""Packages that register envs as they are imported."""
PICTURE = "picture"
STEPS = 8
CLOSE = 1e-3  # to which starts agree that are restored from a stored state


def known(ident: str) -> Any:
    """gymnasium's spec of an id, as of `Name-v0` or `module:Name-v0`."""
    module, _, name = ident.rpartition(":")
    if module:
        importlib.import_module(module)
    failed = []
    for each in ("", *REGISTER):
        try:
            if each and importlib.util.find_spec(each):
                importlib.import_module(each)
            return gymnasium.spec(name)
        except gymnasium.error.Error as error:
            unknown = error
        except Exception as error:  # of a package that need not be the one that has it
            failed.append(f"{each} can't be imported: {error}")
    raise ImportError("; ".join([str(unknown), *failed]))


def registered(ident: str) -> Any:
    """A copy of gymnasium's spec of that id, without its time limit: rlcore has its own."""
    found = copy.deepcopy(known(ident))
    found.max_episode_steps = None
    return found


def make(ident: str, kwargs: Mapping[str, Any], *, renders: bool) -> Any:
    """The env; with frames, if it `renders`."""
    mode: dict[str, Any] = {"render_mode": "rgb_array"} if renders else {}
    return gymnasium.make(registered(ident), disable_env_checker=True, **mode, **kwargs)


def leaves(space: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The parts of an observation, by their place in it: names with dots between them."""
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            yield from leaves(part, f"{place}.{name}" if place else name)
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            yield from leaves(part, f"{place}.{number}" if place else str(number))
    else:
        yield place or "observation", space


def part(observation: Any, place: str) -> Any:
    """What stands at that place of an observation."""
    if place == "observation" and not isinstance(observation, (dict, tuple)):
        return observation
    for name in place.split("."):
        observation = observation[int(name) if isinstance(observation, tuple) else name]
    return observation


def is_picture(space: Any) -> bool:
    """Whether it is uint8 `[H, W, 3]`."""
    box = isinstance(space, spaces.Box)
    return box and space.dtype == np.uint8 and len(space.shape) == 3 and space.shape[2] == 3


def numbers(space: Any, value: Any) -> np.ndarray:
    """A part as float32 `[n]`: a choice of n as n entries, one of which is 1."""
    return np.asarray(spaces.flatten(space, value), dtype=np.float32).reshape(-1)


def action_of(space: Any, given: np.ndarray) -> Any:
    """An action of the env: given float32 `[A]`, clipped; of a choice, the greatest entry's."""
    if isinstance(space, spaces.Discrete):
        return int(space.start + np.argmax(given))
    clipped = np.clip(given.reshape(space.shape), space.low, space.high)
    return clipped.astype(space.dtype)


def brought(before: set[str]) -> dict[str, str]:
    """Versions of the distributions whose modules an env has loaded: its engine among them.

    Args:
        before: names of the modules that were loaded without it.
    """
    modules = {name.partition(".")[0] for name in {*sys.modules} - before}
    owners = metadata.packages_distributions()
    names = {owner for module in modules for owner in owners.get(module, ())}
    return {name: metadata.version(name) for name in sorted(names)}


def measured(ident: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an env, as JSON has them."""
    before = {*sys.modules}
    spec = registered(ident)
    limit = known(ident).max_episode_steps
    probe = make(ident, kwargs, renders=False)
    modes = probe.metadata.get("render_modes", [])
    frame, filmed = None, []
    if "rgb_array" in modes:
        shown = make(ident, kwargs, renders=True)
        shown.reset(seed=0)
        drawn = shown.render()
        frame = list(np.shape(drawn)[:2]) if np.ndim(drawn) == 3 else None
        filmed = [played(shown, seed=7, films=True)[0]]  # a frame may change what follows
        shown.close()
    parts = [
        {
            "place": place,
            "kind": PICTURE if is_picture(space) else _kind(space),
            "size": list(space.shape[:2]) if is_picture(space) else _width(space),
        }
        for place, space in leaves(probe.observation_space)
    ]
    first, infos = played(probe, seed=7)
    again, _ = played(probe, seed=7)
    other = make(ident, kwargs, renders=False)
    played(other, seed=8)
    elsewhere, _ = played(other, seed=7)
    other.close()
    facts = {
        "parts": parts,
        "frame": frame,
        "action": _action(probe.action_space),
        "infos": sorted(infos),
        "starts": _exactness([r[:1] for r in (first, again, elsewhere)]),
        "course": _exactness([first, again, elsewhere, *filmed]) == "bitwise",
        "threshold": spec.reward_threshold,
        "limit": limit,
        "version": str(getattr(spec, "version", "") or ""),
        "gymnasium": gymnasium.__version__,
        "entry_point": str(spec.entry_point),
        "vector_entry_point": bool(getattr(spec, "vector_entry_point", None)),
    }
    probe.close()
    facts["brought"] = brought(before)
    return facts


def played(env: Any, *, seed: int, films: bool = False) -> tuple[list[np.ndarray], set[str]]:
    """Observations as numbers, of a start and some steps, and the names in their `info`; with a
    frame of each if it `films`."""
    observation, _ = env.reset(seed=seed)
    seen, names = [_flat(env, observation)], set[str]()
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        action = _drawn(env.action_space, draw)
        if films:
            env.render()
        observation, _, terminated, truncated, info = env.step(action)
        seen.append(_flat(env, observation))
        names |= set(info)
        if terminated or truncated:
            break
    return seen, names


def _drawn(space: Any, draw: np.random.Generator) -> Any:
    if isinstance(space, spaces.Discrete):
        return int(space.start + draw.integers(space.n))
    low, high = np.maximum(space.low, -1.0), np.minimum(space.high, 1.0)
    return draw.uniform(low, np.maximum(low, high)).astype(space.dtype)


def _flat(env: Any, observation: Any) -> np.ndarray:
    known = [
        np.asarray(part(observation, place), np.float64).reshape(-1)
        if is_picture(space)
        else numbers(space, part(observation, place))
        for place, space in leaves(env.observation_space)
        if is_picture(space) or _width(space)
    ]
    return np.concatenate([*known, np.zeros(0)])


def _exactness(plays: Sequence[Sequence[np.ndarray]]) -> str:
    """ "bitwise", "close" or "none", of the same play several times."""
    first, *others = plays
    if any(len(other) != len(first) for other in others):
        return "none"
    pairs = [(a, b) for other in others for a, b in zip(first, other, strict=True)]
    if all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
        return "bitwise"
    return "close" if all(np.allclose(a, b, atol=CLOSE, rtol=0) for a, b in pairs) else "none"


def _kind(space: Any) -> str:
    return type(space).__name__


def _width(space: Any) -> int:
    """Numbers that it has; 0 for what is none, as text."""
    known = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
    return int(spaces.flatdim(space)) if isinstance(space, known) else 0


def _action(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "size": int(space.n), "low": -1.0, "high": 1.0}
    if not isinstance(space, spaces.Box):
        return {"kind": type(space).__name__, "size": 0, "low": 0.0, "high": 0.0}
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    return {"kind": "Box", "size": int(low.size), "low": low.tolist(), "high": high.tolist()}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = measured(asked["id"], asked["kwargs"])
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print("\n" + json.dumps(answer))
