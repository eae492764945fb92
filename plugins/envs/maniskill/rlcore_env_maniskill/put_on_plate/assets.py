"""Assets of a put-on-plate scene: the benchmark's own files, or stand-ins.

The task takes its objects, plates, tables, robot and room from an :class:`Assets`, whatever their
source. Results on stand-ins are not benchmark results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import sapien

from rlcore.contracts.errors import AssetError
from rlcore_env_maniskill.put_on_plate.variants import OBJECTS, PLATES, TABLES


@dataclass(frozen=True)
class Model(ABC):
    """An object or a plate.

    Args:
        key: unique name.
        name: name in instructions.
        size: edge lengths of the bounding box in the model's own axes, m `[3]`.
        depth: how far the model extends below its origin, m.
    """

    key: str
    name: str
    size: np.ndarray
    depth: float

    @abstractmethod
    def add_to(self, builder: Any, material: Any) -> None:
        """Add the model's collision and visual shapes to a ManiSkill actor builder.

        Args:
            builder: ManiSkill's actor builder.
            material: PhysX material of the collision shapes.
        """


class Table(Protocol):
    """A background picture and its texture."""

    @property
    def mix(self) -> float:
        """Weight of the texture, 0 to 1, which is multiplied by that of the variant."""

    def image(self, height: int, width: int) -> np.ndarray:
        """Return the background picture resized, RGB uint8 `[height, width, 3]`."""

    def texture(self, height: int, width: int) -> np.ndarray:
        """Return the texture resized, RGB uint8 `[height, width, 3]`."""


@dataclass(frozen=True)
class Robot:
    """A ManiSkill agent and its place at the table.

    Args:
        name: name of the robot in settings.
        agent: registered uid, or class, of the ManiSkill agent.
        control_mode: default control mode.
        base: pose of the robot's root in the world.
        qpos: joint positions at the start, `[J]`.
        arm_joints: indices in qpos of the six joints that variant EEPose offsets, waist to wrist.
        tcp_link: name of the link between the fingertips.
    """

    name: str
    agent: Any
    control_mode: str
    base: sapien.Pose
    qpos: np.ndarray
    arm_joints: tuple[int, int, int, int, int, int]
    tcp_link: str


@dataclass(frozen=True)
class Assets:
    """Everything a scene is built from.

    Args:
        kind: "hub" for the benchmark's files, or "stand-in".
        objects: 25 objects; the last 9 are held out.
        plates: 17 plates; only the first is used in training.
        tables: 21 tables; the last 5 are held out.
        robot: the robot and its place.
        build_room: adds table and room to a ManiSkill scene, with the table top at 0.87 m.
    """

    kind: Literal["hub", "stand-in"]
    objects: Sequence[Model]
    plates: Sequence[Model]
    tables: Sequence[Table]
    robot: Robot
    build_room: Callable[[Any], None]

    def __post_init__(self) -> None:
        for name, count, expected in (
            ("objects", len(self.objects), OBJECTS),
            ("plates", len(self.plates), PLATES),
            ("tables", len(self.tables), TABLES),
        ):
            if count != expected:
                raise AssetError(
                    f"the {self.kind} assets of put-on-plate have {count} {name}, the task needs "
                    f"{expected}"
                )
