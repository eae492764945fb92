"""Scripted experts as demonstrators."""

from __future__ import annotations

import numpy as np

from rlcore.errors import EnvError
from rlcore.protocols import Demonstration
from rlcore.rng import generator
from rlcore.specs import EnvSpec
from rlcore_simulation.checks import checked_step, draw_into
from rlcore_simulation.messages import Demonstrate
from rlcore_simulation.simulator import Simulator


def play_expert(simulator: Simulator, spec: EnvSpec, wish: Demonstrate) -> Demonstration:
    """One expert episode, from its start to success or to its time limit.

    We store the expert's action. The env executes it with Gaussian noise (std: `action_noise` times
    half the range of each entry), clipped to the range. So the data show the way back from states
    that the expert alone would not reach.
    """
    task = spec.tasks[wish.episode.task]
    noise = generator(f"{spec.name} demonstration", wish.seed, task, *wish.episode[1:3])
    low, high = (_bound(spec, side) for side in ("low", "high"))
    scale = wish.action_noise * (high - low) / 2
    states: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    frames: dict[str, list[np.ndarray]] = {camera.name: [] for camera in spec.cameras}
    frame_steps: list[int] = []
    solved = False
    sentence = simulator.start(wish.episode)
    while not solved and len(actions) < wish.max_steps:
        if len(actions) % wish.stride == 0:
            for name, frame in _drawn(simulator, spec).items():
                frames[name].append(frame)
            frame_steps.append(len(actions))
        action = simulator.expert_action(speed=wish.speed)
        where = f"task {task!r}, trial {wish.episode.trial}, step {len(actions) + 1}"
        if np.shape(action) != (spec.action_dim,):
            raise EnvError(
                f"the expert's action of {spec.name} has shape {list(np.shape(action))} in "
                f"{where}, expected [{spec.action_dim}]",
                hint="the env is at fault: give the entries that spec.actions lists",
            )
        states.append(simulator.states)
        actions.append(action)
        executed = action + scale * noise.standard_normal(action.shape)
        outcome = simulator.step(np.clip(executed, low, high).astype(np.float32))
        solved = checked_step(outcome, where).success
    return Demonstration(
        episode=wish.episode,
        task_description=sentence,
        frames={name: np.stack(kept) for name, kept in frames.items()},
        frame_steps=np.array(frame_steps, dtype=np.int64),
        states=np.stack(states),
        actions=np.stack(actions),
        success=solved,
    )


def _bound(spec: EnvSpec, side: str) -> np.ndarray:
    """The lower or upper end of each entry of the action, `[A]`."""
    return np.concatenate([np.full(c.size, getattr(c, side)) for c in spec.actions])


def _drawn(simulator: Simulator, spec: EnvSpec) -> dict[str, np.ndarray]:
    """A newly rendered frame of every camera."""
    out = {c.name: np.empty((c.height, c.width, 3), dtype=np.uint8) for c in spec.cameras}
    if out:
        draw_into(simulator, out)
    return out
