"""Make MetaWorld's env with RLinf's way of working as switches. Imports no simulator.

Without a switch it is rlcore's own env. Only how episodes end may differ, and that for every way
alike: with random weights none ends before the time limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any
from unittest import mock

import rlcore_simulation.env
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec
from rlcore_mujoco import env as mujoco_env
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.simulator import SimulatorSource

from parts.pickled_fleet import PickledFleet

SOURCE = SimulatorSource("parts.reference_simulator:make_pool", name="MetaWorld simulator")


@dataclass
class ReferenceConfig(MetaWorldConfig):
    """MetaWorld's settings and the switches of a way of working.

    Attributes:
        frame_every_step: whether a frame is rendered at every env step.
        pickled: whether observations are pickled and sent through pipes.
        drawn_ends: whether an episode succeeds at a drawn step, whatever the policy does.
    """

    frame_every_step: bool = False
    pickled: bool = False
    drawn_ends: bool = False

    @classmethod
    def of(cls, config: MetaWorldConfig, **switches: bool) -> ReferenceConfig:
        """Return these settings with switches."""
        values: Mapping[str, Any] = {f.name: getattr(config, f.name) for f in fields(config)}
        return cls(**values, **switches)


def make_env(
    config: ReferenceConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> SimulatedEnv:
    """Make the env of an env worker, as MetaWorld's own `make_env` does."""
    fleet = mock.patch.object(rlcore_simulation.env, "SimulatorFleet", PickledFleet)
    with fleet if config.pickled else nullcontext():
        return mujoco_env.make_env(
            env_spec(config),
            SOURCE,
            config,
            num_envs=num_envs,
            rank=rank,
            num_processes=num_processes,
        )
