"""The stand-in robot: two arms of six joints with parallel grippers, of boxes and cylinders.

An arm's base looks along its x-axis. With all joints at zero the arm is stretched out along it; the
gripper's frame, `hand`, has x along the fingers, y across them, and its origin between their tips.
Knows nothing of SAPIEN: it writes URDF and SRDF.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

# Where the left and the right arm stand in the world, m: x to the right, y forward, z up.
BASES = ((-0.3, -0.42, 0.74), (0.3, -0.42, 0.74))
YAW = np.pi / 2  # of both bases: they look along the world's y-axis

SHOULDER, UPPER, FORE, HAND = 0.16, 0.4, 0.4, 0.17  # lengths of the links, m
OPENING = 0.045  # way of a finger from closed to open, m
LIMITS = np.array(
    [(-2.6, 2.6), (-2.8, 0.6), (-0.2, 2.9), (-2.0, 2.0), (-2.0, 2.0), (-3.1, 3.1)]
)  # of the six joints, rad
HOME = np.array([0.0, -1.9, 2.35, 0.0, 1.12, 0.0])  # bent, gripper down, 0.2 m over the table
JOINTS = tuple(f"joint{number}" for number in range(1, 7))
FINGERS = ("finger_left", "finger_right")
SPEED = ACCELERATION = 1.0  # limits of each joint, rad/s and rad/s^2, as mplib's defaults

HAIR = 3e-4  # m
Vector = tuple[float, ...]
GREY = (0.75, 0.77, 0.8)
DARK = (0.22, 0.22, 0.25)


@dataclass(frozen=True)
class Joint:
    """A joint and the link behind it.

    Attributes:
        name, kind, axis: as in URDF.
        at: origin in the link before it, m.
        box: full sizes of the link's shape, m, and `centre` its place in the link.
    """

    name: str
    kind: str
    axis: str
    at: Vector
    box: Vector
    centre: Vector
    low: float = 0.0
    high: float = 0.0
    colour: Vector = GREY


def _links() -> list[tuple[str, Joint]]:
    """Parents and joints, in the order of the chain."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
    places = ((0, 0, 0.06), (0, 0, SHOULDER - 0.06), (UPPER, 0, 0), (0.2, 0, 0),
              (FORE - 0.2, 0, 0), (0.05, 0, 0))  # fmt: skip
    shapes = (
        ((0.09, 0.09, 0.08), (0, 0, 0.05)),
        ((UPPER, 0.06, 0.06), (UPPER / 2, 0, 0)),
        ((0.18, 0.05, 0.05), (0.09, 0, 0)),
        ((0.18, 0.045, 0.045), (0.09, 0, 0)),
        ((0.05, 0.04, 0.04), (0.02, 0, 0)),
        ((0.03, 0.12, 0.03), (0.055, 0, 0)),
    )
    parents = ("base", "link1", "link2", "link3", "link4", "link5")
    chain = [
        (parent, Joint(JOINTS[n], "revolute", axes[n], places[n], shapes[n][0], shapes[n][1],
                       LIMITS[n, 0], LIMITS[n, 1], GREY if n % 2 else DARK))
        for n, parent in enumerate(parents)
    ]  # fmt: skip
    for name, side in zip(FINGERS, (1, -1), strict=True):
        # closed, the inner faces touch
        finger = Joint(name, "prismatic", f"0 {side} 0", (0.1, 0, 0), (0.06, 0.012, 0.024),
                       (0, side * 0.006, 0), 0.0, OPENING, DARK)  # fmt: skip
        chain.append(("link6", finger))
    return chain


def shaded(half: Vector, colour: Vector) -> list[tuple[Vector, Vector]]:
    """A box as three, half sizes and colours, whose faces along x, y and z have a brightness each:
    shading for a renderer without light. Each juts out by a hair in its own direction."""
    boxes = []
    for axis, brightness in enumerate((0.7, 0.85, 1.0)):
        grown = list(half)
        grown[axis] += HAIR
        boxes.append((tuple(grown), tuple(brightness * part for part in colour)))
    return boxes


def urdf(name: str) -> str:
    """The robot's description, as `name`."""
    parts = [f'<robot name="{name}">', _link("base", (0.12, 0.12, 0.06), (0, 0, 0.03), DARK)]
    for parent, joint in _links():
        link = joint.name.replace("joint", "link")
        parts.append(_link(link, joint.box, joint.centre, joint.colour))
        parts.append(
            f'<joint name="{joint.name}" type="{joint.kind}"><parent link="{parent}"/>'
            f'<child link="{link}"/><origin xyz="{_words(joint.at)}"/><axis xyz="{joint.axis}"/>'
            f'<limit lower="{joint.low}" upper="{joint.high}" effort="1000" velocity="10"/></joint>'
        )
    for link, x, z in (("hand", HAND - 0.05, 0.0), ("camera", 0.0, 0.07)):
        parts.append(
            f'<link name="{link}"/><joint name="{link}_joint" type="fixed">'
            f'<parent link="link6"/><child link="{link}"/><origin xyz="{x} 0 {z}"/></joint>'
        )
    return "\n".join([*parts, "</robot>"])


def srdf(name: str) -> str:
    """The links that a planner need not keep apart: all of one arm. Its motions don't fold it."""
    links = ["base", *(joint.name.replace("joint", "link") for _, joint in _links())]
    pairs = [(a, b) for place, a in enumerate(links) for b in links[place + 1 :]]
    rows = (f'<disable_collisions link1="{a}" link2="{b}" reason="Default"/>' for a, b in pairs)
    return "\n".join([f'<robot name="{name}">', *rows, "</robot>"])


def _link(name: str, box: Vector, centre: Vector, colour: Vector) -> str:
    origin = f'<origin xyz="{_words(centre)}"/>'
    shape = f'{origin}<geometry><box size="{_words(box)}"/></geometry>'
    visuals = "".join(
        f'<visual>{origin}<geometry><box size="{_words(2 * np.array(half))}"/></geometry>'
        f'<material name="{name}{n}"><color rgba="{_words(paint)} 1"/></material></visual>'
        for n, (half, paint) in enumerate(shaded(tuple(np.array(box) / 2), colour))
    )
    # 1 kg a link, as RoboTwin sets it; the inertia is that of a ball of 10 cm
    mass = (
        f'<inertial><origin xyz="{_words(centre)}"/><mass value="1"/>'
        '<inertia ixx="0.004" iyy="0.004" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    return f'<link name="{name}">{mass}{visuals}<collision>{shape}</collision></link>'


def _words(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)
