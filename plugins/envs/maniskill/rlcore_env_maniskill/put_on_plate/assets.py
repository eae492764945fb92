"""What a put-on-plate scene is built from: the benchmark's own files, or stand-ins.

The task takes its objects, plates, tables, robot and room from an :class:`Assets` and does not
know where they come from. `kind` is recorded with every result made on them.
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
        key: a unique name.
        name: its name in sentences.
        size: edges of its bounding box in its own axes, m `[3]`.
        depth: how far it reaches below its origin, m.
    """

    key: str
    name: str
    size: np.ndarray
    depth: float

    @abstractmethod
    def add_to(self, builder: Any, material: Any) -> None:
        """Add its collision and visual shapes to a ManiSkill actor builder."""


class Table(Protocol):
    """A picture for the background, and the texture that goes with it."""

    @property
    def mix(self) -> float:
        """Weight of the texture, 0 to 1; multiplied with the variant's."""

    def image(self, height: int, width: int) -> np.ndarray:
        """The picture uint8 `[height, width, 3]`, RGB."""

    def texture(self, height: int, width: int) -> np.ndarray:
        """The texture uint8 `[height, width, 3]`, RGB."""


@dataclass(frozen=True)
class Robot:
    """A ManiSkill agent and its place at the table.

    Args:
        name: its name in settings.
        agent: a registered uid, or the agent's class.
        control_mode: the default one.
        base: pose of its root in the world.
        qpos: joint positions at the start.
        arm_joints: indices in qpos of the six joints that EEPose turns, waist to wrist.
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
        kind: "hub" for the benchmark's files; results on "stand-in" are not benchmark results.
        objects: 25, of which the last 9 are held out.
        plates: 17, of which the first is used in training.
        tables: 21, of which the last 5 are held out.
        robot: the arm.
        build_room: adds table and room to a ManiSkill scene, the table top at 0.87 m.
    """

    kind: Literal["hub", "stand-in"]
    objects: Sequence[Model]
    plates: Sequence[Model]
    tables: Sequence[Table]
    robot: Robot
    build_room: Callable[[Any], None]

    def __post_init__(self) -> None:
        for name, found, expected in (
            ("objects", len(self.objects), OBJECTS),
            ("plates", len(self.plates), PLATES),
            ("tables", len(self.tables), TABLES),
        ):
            if found != expected:
                raise AssetError(
                    f"the {self.kind} assets of put-on-plate have {found} {name}, the task needs "
                    f"{expected}"
                )
