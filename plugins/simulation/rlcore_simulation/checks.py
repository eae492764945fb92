"""What an env of simulators accepts: episodes that exist, valid steps, rendered frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlcore.errors import ConfigError, EnvError
from rlcore.specs import EnvSpec, Episode
from rlcore_simulation.simulator import AnySimulator, Step


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


def checked_step(outcome: Any, where: str) -> Step:
    """The result of a simulator's step; `where` says at which task, trial and step.

    Raises:
        EnvError: it is not a Step, or its reward or an info is not a number.
    """
    hint = "the env is at fault: see rlcore_simulation.simulator.Step"
    if not isinstance(outcome, Step) or not isinstance(outcome.info, Mapping):
        found = outcome if not isinstance(outcome, Step) else outcome.info
        what, wanted = ("step", "a Step") if found is outcome else ("info", "a dict of numbers")
        raise EnvError(
            f"the simulator's {what} is {found!r} in {where}, expected {wanted}", hint=hint
        )
    for name, value in (("reward", outcome.reward), *outcome.info.items()):
        if value is None or isinstance(value, (str, bytes)):
            raise EnvError(
                f"the simulator's {name} is {value!r} in {where}, expected a number", hint=hint
            )
    return outcome


def draw_into(simulator: AnySimulator, out: Mapping[str, np.ndarray]) -> None:
    """Let the simulator write the current frame of every camera into `out`, uint8 `[H, W, 3]` by
    name.

    Raises:
        EnvError: it replaced the arrays instead of writing into them.
    """
    given = dict(out)
    simulator.draw(given)
    for name, array in out.items():
        if given.get(name) is not array:
            raise EnvError(
                f"the simulator's draw replaces out[{name!r}] instead of writing into it",
                hint=f"the env is at fault: out[{name!r}][:] = frame",
            )
