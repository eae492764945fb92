"""MetaWorld's scripted experts as demonstrators."""

from __future__ import annotations

import warnings

import numpy as np
from metaworld.policies import ENV_POLICY_MAP

from rlcore.protocols import Demonstration
from rlcore.rollout.rng import generator
from rlcore_env_metaworld.messages import Demonstrate
from rlcore_env_metaworld.render import Renderer, View
from rlcore_env_metaworld.simulator import Simulator

# Entries of the action that move the hand; the last one works the gripper.
MOTION = slice(0, 3)


def play_expert(
    simulator: Simulator,
    renderer: Renderer,
    view: View,
    wish: Demonstrate,
    *,
    sentence: str,
) -> Demonstration:
    """One expert episode, from its start to success or to its time limit.

    The expert's action is clipped to [-1, 1] and its motion scaled by `speed`; that is the action
    stored. Executed is the stored action plus Gaussian noise, clipped again, so that the data
    hold the way back from states which the expert alone would not reach.
    """
    expert = ENV_POLICY_MAP[simulator.task]()  # type: ignore[abstract]
    noise = generator("metaworld demonstration", wish.seed, simulator.task, *wish.episode[1:3])
    states: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    frames: list[np.ndarray] = []
    frame_steps: list[int] = []
    solved = False
    simulator.start(wish.episode.trial)
    while not solved and len(actions) < wish.max_steps:
        if len(actions) % wish.stride == 0:
            frame = np.empty((view.size, view.size, 3), dtype=np.uint8)
            simulator.draw(renderer, frame)
            frames.append(frame)
            frame_steps.append(len(actions))
        with warnings.catch_warnings():  # experts ask for more than the range and say so; we clip
            warnings.simplefilter("ignore")
            action = np.clip(expert.get_action(simulator.observation), -1.0, 1.0)
        action[MOTION] *= wish.speed
        states.append(simulator.states)
        actions.append(action.astype(np.float32))
        executed = action + wish.action_noise * noise.standard_normal(action.shape)
        _, solved = simulator.step(np.clip(executed, -1.0, 1.0).astype(np.float32))
    return Demonstration(
        episode=wish.episode,
        task_description=sentence,
        frames={view.camera: np.stack(frames)},
        frame_steps=np.array(frame_steps, dtype=np.int64),
        states=np.stack(states),
        actions=np.stack(actions),
        success=solved,
    )
