"""Stand-in assets: a scene of primitive shapes for machines without the benchmark's files.

Counts, names, sizes and places are similar to the benchmark's, so that the whole task can be run
and tested. Its images are different, so results on it are not benchmark results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import sapien
from rlcore_env_maniskill.put_on_plate.assets import Assets, Model, Robot
from rlcore_env_maniskill.put_on_plate.variants import TABLE_HEIGHT, TABLES
from rlcore_env_maniskill.tasks import STAND_IN_ROBOTS

from rlcore.contracts.errors import ConfigError

Shape = Literal["box", "cylinder", "rod", "ball"]
RGB = tuple[float, float, float]

# Name, shape, half extents in mm (x, y, z), colour. A cylinder is upright, a rod is along x. All
# objects are narrower than the gripper's opening. The smallest distance between the starts of an
# object and a plate is 84.9 mm. So that they don't overlap, objects fit into circles of radius
# 32.1 mm, and plates with their corners into circles of radius 52 mm.
OBJECTS: tuple[tuple[str, Shape, tuple[int, int, int], RGB], ...] = (
    ("carrot", "rod", (30, 13, 13), (0.95, 0.45, 0.05)),
    ("kitchen shovel", "box", (30, 9, 9), (0.35, 0.35, 0.38)),
    ("bread", "box", (22, 20, 14), (0.80, 0.60, 0.30)),
    ("plastic bottle", "cylinder", (15, 15, 28), (0.30, 0.65, 0.90)),
    ("7up can", "cylinder", (17, 17, 24), (0.05, 0.60, 0.20)),
    ("zuchinni", "rod", (30, 12, 12), (0.20, 0.40, 0.10)),
    ("ketchup bottle", "cylinder", (12, 12, 26), (0.75, 0.05, 0.05)),
    ("watering can", "box", (24, 16, 18), (0.10, 0.30, 0.75)),
    ("pipe", "rod", (30, 15, 15), (0.55, 0.55, 0.60)),
    ("toy bear", "box", (18, 16, 22), (0.50, 0.28, 0.12)),
    ("fast food cup", "cylinder", (14, 14, 22), (0.95, 0.85, 0.80)),
    ("plant", "box", (14, 14, 26), (0.25, 0.70, 0.25)),
    ("banana", "rod", (29, 11, 11), (0.98, 0.88, 0.15)),
    ("hamburger", "cylinder", (22, 22, 17), (0.65, 0.40, 0.15)),
    ("golf ball", "ball", (16, 16, 16), (0.97, 0.97, 0.97)),
    ("BBQ sauce", "box", (20, 13, 26), (0.30, 0.08, 0.05)),
    # held out
    ("travel cup", "cylinder", (17, 17, 28), (0.10, 0.55, 0.60)),
    ("pepper", "ball", (21, 21, 21), (0.85, 0.12, 0.10)),
    ("nonstop can", "cylinder", (16, 16, 26), (0.55, 0.10, 0.60)),
    ("potato", "box", (25, 20, 18), (0.70, 0.58, 0.35)),
    ("baguette", "rod", (30, 14, 14), (0.88, 0.68, 0.35)),
    ("champagne glass", "cylinder", (11, 11, 28), (0.85, 0.90, 0.95)),
    ("kitchen spoon", "box", (30, 8, 8), (0.75, 0.75, 0.78)),
    ("onion", "ball", (19, 19, 19), (0.80, 0.50, 0.70)),
    ("cup", "cylinder", (20, 20, 20), (0.95, 0.35, 0.55)),
)

PLATES: tuple[tuple[str, Shape, tuple[int, int, int], RGB], ...] = (
    ("plate", "cylinder", (52, 52, 4), (0.92, 0.92, 0.94)),
    ("cloth", "box", (36, 36, 3), (0.35, 0.45, 0.75)),
    ("carpet", "box", (40, 33, 3), (0.60, 0.15, 0.20)),
    ("newspaper", "box", (31, 41, 3), (0.75, 0.75, 0.70)),
    ("sheet metal", "box", (39, 34, 3), (0.60, 0.63, 0.66)),
    ("drawing tablet", "box", (41, 31, 4), (0.12, 0.12, 0.15)),
    ("tomato slice", "cylinder", (50, 50, 4), (0.85, 0.20, 0.12)),
    ("pizza", "cylinder", (52, 52, 4), (0.90, 0.65, 0.25)),
    ("flat bowl", "cylinder", (50, 50, 6), (0.30, 0.65, 0.65)),
    ("gramophone disk", "cylinder", (52, 52, 3), (0.08, 0.08, 0.08)),
    ("frying pan", "cylinder", (50, 50, 5), (0.25, 0.25, 0.28)),
    ("mouse pad", "box", (35, 35, 3), (0.15, 0.25, 0.45)),
    ("cutting board", "box", (38, 35, 4), (0.72, 0.52, 0.32)),
    ("chess board", "box", (36, 36, 4), (0.45, 0.28, 0.15)),
    ("manhole cover", "cylinder", (52, 52, 5), (0.38, 0.36, 0.33)),
    ("envelope", "box", (43, 29, 3), (0.90, 0.82, 0.65)),
    ("notepad", "box", (40, 32, 3), (0.97, 0.95, 0.55)),
)

UPRIGHT = sapien.Pose(q=[np.sqrt(0.5), 0, np.sqrt(0.5), 0])  # SAPIEN's cylinders are along x
DENSITY = 800.0


@dataclass(frozen=True)
class PrimitiveModel(Model):
    """A primitive shape in one colour; its origin is its centre."""

    shape: Shape
    colour: RGB

    def add_to(self, builder: Any, material: Any) -> None:
        x, y, z = (self.size / 2).tolist()
        paint = sapien.render.RenderMaterial(base_color=[*self.colour, 1.0], roughness=0.6)
        touch = {"material": material, "density": DENSITY}
        if self.shape == "box":
            builder.add_box_collision(half_size=[x, y, z], **touch)
            builder.add_box_visual(half_size=[x, y, z], material=paint)
        elif self.shape == "cylinder":
            sizes = {"pose": UPRIGHT, "radius": x, "half_length": z}
            builder.add_cylinder_collision(**sizes, **touch)
            builder.add_cylinder_visual(**sizes, material=paint)
        elif self.shape == "rod":
            sizes = {"radius": y, "half_length": x - y}
            builder.add_capsule_collision(**sizes, **touch)
            builder.add_capsule_visual(**sizes, material=paint)
        else:
            builder.add_sphere_collision(radius=x, **touch)
            builder.add_sphere_visual(radius=x, material=paint)


@dataclass(frozen=True)
class PaintedTable:
    """A table whose colour, grain and wall are generated from its number."""

    number: int
    mix: float

    def image(self, height: int, width: int) -> np.ndarray:
        down, across = _coordinates(height, width)
        random = np.random.default_rng((1, self.number))
        top, wall = random.uniform(90, 220, (2, 3))
        waves = _waves(down, across, random, strength=18)
        shade = 1.0 - 0.25 * np.abs(across - 0.5)
        table = (top + waves[..., None]) * shade[..., None]
        picture = np.where((down > 0.22 + 0.02 * self.number / TABLES)[..., None], table, wall)
        return picture.clip(0, 255).astype(np.uint8)

    def texture(self, height: int, width: int) -> np.ndarray:
        down, across = _coordinates(height, width)
        random = np.random.default_rng((2, self.number))
        base = random.uniform(60, 200, 3)
        channels = [
            base[channel] + _waves(down, across, random, strength=90) for channel in range(3)
        ]
        return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


def make_stand_ins(robot: str | None = None) -> Assets:
    """Return stand-in assets: 25 objects, 17 plates, 21 tables and ManiSkill's Panda.

    Args:
        robot: one of STAND_IN_ROBOTS; None: the first.

    Raises:
        ConfigError: `robot` is another one.
    """
    name = robot or STAND_IN_ROBOTS[0]
    if name not in STAND_IN_ROBOTS:
        raise ConfigError(
            f"the stand-in assets of put-on-plate come with robot {' or '.join(STAND_IN_ROBOTS)}, "
            f"got {name!r}"
        )
    return Assets(
        kind="stand-in",
        objects=_models(OBJECTS),
        plates=_models(PLATES),
        tables=tuple(PaintedTable(number, float(number > 0)) for number in range(TABLES)),
        robot=Robot(
            name=name,
            agent=name,
            control_mode="pd_ee_delta_pose",
            base=sapien.Pose([0.3, 0.028, TABLE_HEIGHT], [0, 0, 0, 1]),
            qpos=np.array([0, 0.259, 0, -2.289, 0, 2.515, np.pi / 4, 0.04, 0.04]),
            arm_joints=(0, 1, 3, 4, 5, 6),
            tcp_link="panda_hand_tcp",
        ),
        build_room=_build_room,
    )


def _models(rows: tuple[tuple[str, Shape, tuple[int, int, int], RGB], ...]) -> tuple[Any, ...]:
    return tuple(
        PrimitiveModel(
            key=f"{number + 1:03d}_{name}",
            name=name,
            size=2 * np.array(half) / 1000,
            depth=half[2] / 1000,
            shape=shape,
            colour=colour,
        )
        for number, (name, shape, half, colour) in enumerate(rows)
    )


def _build_room(scene: Any) -> None:
    builder = scene.create_actor_builder()
    paint = sapien.render.RenderMaterial(base_color=[0.45, 0.4, 0.35, 1.0])
    for top, half in ((TABLE_HEIGHT, [0.75, 1.0, 0.02]), (0.0, [8.0, 8.0, 0.02])):  # and a floor
        place = sapien.Pose([0.0, 0.0, top - half[2]])
        builder.add_box_collision(pose=place, half_size=half)
        builder.add_box_visual(pose=place, half_size=half, material=paint)
    builder.initial_pose = sapien.Pose()
    builder.build_static(name="room")


def _coordinates(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates of pixel centres (down, across), each `[height, width]` in (0, 1)."""
    down, across = np.meshgrid(
        (np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij"
    )
    return down, across


def _waves(
    down: np.ndarray, across: np.ndarray, random: np.random.Generator, *, strength: float
) -> np.ndarray:
    angle, frequency, phase = random.uniform((0, 6, 0), (np.pi, 30, 2 * np.pi))
    along = np.cos(angle) * down + np.sin(angle) * across
    return strength * np.sin(frequency * along + phase)
