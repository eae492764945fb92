"""What a put-on-plate scene is built from: the benchmark's own files, or stand-ins.

The task asks an :class:`Assets` for its objects, plates, tables, robot and room and never
looks at where they come from; `kind` goes with every result made on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import sapien

from rlcore.errors import AssetError
from rlcore_env_maniskill.put_on_plate.variants import OBJECTS, PLATES, TABLES


class Model(Protocol):
    """An object or a plate."""

    @property
    def key(self) -> str:
        """A name no other model has."""

    @property
    def name(self) -> str:
        """What sentences call it."""

    @property
    def size(self) -> np.ndarray:
        """Edges of its box in its own axes, m `[3]`."""

    @property
    def depth(self) -> float:
        """How far it reaches below its origin, m."""

    def add_to(self, builder: Any, material: Any) -> None:
        """Adds its collision and visual shapes to a ManiSkill actor builder."""


class Table(Protocol):
    """A picture to put behind the scene, and the texture that goes with it."""

    @property
    def mix(self) -> float:
        """Share of the texture before the variant's own, 0 to 1."""

    def image(self, height: int, width: int) -> np.ndarray:
        """The picture uint8 `[height, width, 3]`, RGB."""

    def texture(self, height: int, width: int) -> np.ndarray:
        """The texture uint8 `[height, width, 3]`, RGB."""


@dataclass(frozen=True)
class Robot:
    """A ManiSkill agent and how it stands at the table.

    Args:
        name: what settings call it.
        agent: a registered uid, or the agent's class.
        control_mode: the one used where none is asked for.
        base: pose of its root in the world.
        qpos: joint positions at the start.
        arm_joints: where in qpos the six joints are that EEPose turns, waist to wrist.
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
        kind: "hub" for the benchmark's files; figures on "stand-in" are no benchmark figures.
        objects: 25, of which the last 9 are held out.
        plates: 17, of which the first is the one of training.
        tables: 21, of which the last 5 are held out.
        robot: the arm.
        build_room: puts table and room into a ManiSkill scene, the table top at 0.87 m.
    """

    kind: Literal["hub", "stand-in"]
    objects: Sequence[Model]
    plates: Sequence[Model]
    tables: Sequence[Table]
    robot: Robot
    build_room: Callable[[Any], None]

    def __post_init__(self) -> None:
        counts = {"objects": OBJECTS, "plates": PLATES, "tables": TABLES}
        for name, expected in counts.items():
            if len(getattr(self, name)) != expected:
                raise AssetError(
                    f"the {self.kind} assets of put-on-plate have {len(getattr(self, name))} "
                    f"{name}, the task needs {expected}"
                )
