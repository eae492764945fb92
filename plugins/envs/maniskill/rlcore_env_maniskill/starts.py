"""Compute arguments of ManiSkill's `reset` from (task, trial), for one scene or rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sapien
import torch
from mani_skill.envs.sapien_env import BaseEnv

from rlcore.contracts.rng import generator
from rlcore_env_maniskill.raw import make_raw
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import split_of
from rlcore_env_maniskill.tasks import PUT_ON_PLATE, task_of

# Height difference between bodies that are moved apart so that they don't touch, m.
APART = 10.0


def seed_of(task: str, trial: int) -> int:
    """Return the seed of a trial's start."""
    return int(generator("maniskill start", task, trial).integers(2**31))


def start_of(env: BaseEnv, task: str, trial: int) -> tuple[int, dict[str, Any]]:
    """Return seed and options of ManiSkill's `reset` for the start of a trial in one scene."""
    numbered = task_of(task) is PUT_ON_PLATE
    return seed_of(task, trial), _numbers(env, [trial]) if numbered else {}


def reset_exactly(
    env: BaseEnv, seed: int, options: dict[str, Any], *, rebuild: bool
) -> tuple[Any, dict]:
    """Reset a scene on the CPU to a start that does not depend on the previous episode.

    ManiSkill sets poses and velocities. It can't set the contact state that the physics engine
    keeps from its last step. This state consists of the forces between bodies, by which a cube that
    was held would count as grasped at the start, and of the contact points of pairs that still
    touch, with which the next step begins. So all bodies are moved far apart for one step, in which
    nothing touches, and the start is set again.

    Later contacts may still differ. Only a rebuilt scene has no history at all: neither PhysX's
    enhanced determinism nor removing all bodies and adding them back makes a push repeat.

    Args:
        env: the unwrapped env.
        seed: seed of the start.
        options: options of the start.
        rebuild: whether to rebuild the scene.

    Returns:
        the result of `env.reset`: observation and infos.
    """
    if rebuild:
        return env.reset(seed=seed, options=options | {"reconfigure": True})
    if "episode_id" in options:  # the put-on-plate env moves its bodies apart itself
        return env.reset(seed=seed, options=options)
    env.reset(seed=seed, options=options)
    robot = env.agent.robot
    robot.set_joint_drive_targets(robot.qpos, robot.active_joints)  # keeps the arm still
    bodies = [actor for actor in env.scene.actors.values() if actor.px_body_type == "dynamic"]
    for number, body in enumerate(bodies, start=1):
        body.set_pose(sapien.Pose([0.0, 0.0, APART * number]))
    env.scene.step()
    return env.reset(seed=seed, options=options)


def _numbers(env: BaseEnv, trials: Sequence[int]) -> dict[str, Any]:
    """Return put-on-plate's option `episode_id`, which determines starts on any device and row."""
    ids = [env.episodes.id_of_trial(trial, split=split_of(trial)) for trial in trials]
    return {"episode_id": torch.tensor(ids)}


class Starts:
    """Starts of the rows of a batched env.

    Put-on-plate's starts are determined by episode numbers. A start of another task is the
    simulation state of a scene on the CPU after :func:`reset_exactly`. This state contains
    everything that moves or is placed at a start. That suffices for tasks whose
    `starts_are_states` is true.

    Args:
        config: settings of the batch.
        task: ManiSkill's id.
    """

    def __init__(self, config: ManiSkillConfig, task: str) -> None:
        self._task = task
        single = replace(config, sim_backend="cpu", obs_mode="none")
        self._scene = None if task_of(task) is PUT_ON_PLATE else make_raw(single, task)
        self._kept: dict[int, dict[str, dict[str, torch.Tensor]]] = {}

    def of(self, env: BaseEnv, trials: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
        """Return seeds and options of `env.reset` for rows that start these trials, in order."""
        seeds = [seed_of(self._task, trial) for trial in trials]
        if self._scene is None:
            return seeds, _numbers(env, trials)
        states = [self._state(self._scene, trial) for trial in trials]
        stacked = {
            kind: {
                name: torch.cat([state[kind][name] for state in states]).to(env.device)
                for name in states[0][kind]
            }
            for kind in states[0]
        }
        return seeds, {"reset_to_env_states": {"env_states": stacked}}

    def close(self) -> None:
        """Free the scene on the CPU."""
        if self._scene is not None:
            self._scene.close()
            self._scene = None

    def _state(self, scene: BaseEnv, trial: int) -> dict[str, dict[str, torch.Tensor]]:
        if trial not in self._kept:
            reset_exactly(scene, seed_of(self._task, trial), {}, rebuild=False)
            self._kept[trial] = scene.scene.get_sim_state()
        return self._kept[trial]
