"""The stand-in robot: two arms of six joints with parallel grippers, of boxes and cylinders.

An arm's base looks along its x-axis. With all joints at zero the arm is stretched out along it; the
gripper's frame, `hand`, has x along the fingers, y across them, and its origin between their tips.
This module writes URDF and SRDF, and does not import SAPIEN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

# Where the left and the right arm stand in the world, m: x to the right, y forward, z up.
BASES = ((-0.3, -0.42, 0.74), (0.3, -0.42, 0.74))
YAW = np.pi / 2  # of both bases: they look along the world's y-axis

# lengths of the links, m
SHOULDER = 0.16
UPPER = 0.4
FORE = 0.4
HAND = 0.17
OPENING = 0.045  # travel of a finger from closed to open, m
LIMITS = np.array(
    [(-2.6, 2.6), (-2.8, 0.6), (-0.2, 2.9), (-2.0, 2.0), (-2.0, 2.0), (-3.1, 3.1)]
)  # of the six joints, rad
HOME = np.array([0.0, -1.9, 2.35, 0.0, 1.12, 0.0])  # bent, gripper down, 0.2 m over the table
JOINTS = tuple(f"joint{number}" for number in range(1, 7))
FINGERS = ("finger_left", "finger_right")
# limits of each joint, as in mplib
SPEED = 1.0  # rad/s
ACCELERATION = 1.0  # rad/s^2

PROTRUSION = 3e-4  # of shaded faces, m
Vector = tuple[float, ...]
GREY = (0.75, 0.77, 0.8)
DARK = (0.22, 0.22, 0.25)


@dataclass(frozen=True)
class Joint:
    """A joint and its child link.

    Attributes:
        name, kind, axis: as in URDF.
        at: origin in the parent link, m.
        box: edge lengths of the link's shape, m.
        centre: centre of the shape in the link, m.
        low, high: limits of the joint, rad or m.
        colour: red, green, blue in [0, 1].
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
    """Return (name of the parent link, joint) of each joint, in the order of the chain."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
    places = (
        (0, 0, 0.06),
        (0, 0, SHOULDER - 0.06),
        (UPPER, 0, 0),
        (0.2, 0, 0),
        (FORE - 0.2, 0, 0),
        (0.05, 0, 0),
    )
    shapes = (
        ((0.09, 0.09, 0.08), (0, 0, 0.05)),
        ((UPPER, 0.06, 0.06), (UPPER / 2, 0, 0)),
        ((0.18, 0.05, 0.05), (0.09, 0, 0)),
        ((0.18, 0.045, 0.045), (0.09, 0, 0)),
        ((0.05, 0.04, 0.04), (0.02, 0, 0)),
        ((0.03, 0.12, 0.03), (0.055, 0, 0)),
    )
    parents = ("base", "link1", "link2", "link3", "link4", "link5")
    chain = []
    for n, parent in enumerate(parents):
        box, centre = shapes[n]
        joint = Joint(
            name=JOINTS[n],
            kind="revolute",
            axis=axes[n],
            at=places[n],
            box=box,
            centre=centre,
            low=LIMITS[n, 0],
            high=LIMITS[n, 1],
            colour=GREY if n % 2 else DARK,
        )
        chain.append((parent, joint))
    for name, side in zip(FINGERS, (1, -1), strict=True):
        finger = Joint(
            name=name,
            kind="prismatic",
            axis=f"0 {side} 0",
            at=(0.1, 0, 0),
            box=(0.06, 0.012, 0.024),
            centre=(0, side * 0.006, 0),  # the inner faces touch if the gripper is closed
            low=0.0,
            high=OPENING,
            colour=DARK,
        )
        chain.append(("link6", finger))
    return chain


def shaded(half: Vector, colour: Vector) -> list[tuple[Vector, Vector]]:
    """Return three boxes that replace a box, as (half sizes, colour).

    Each box protrudes along one axis and has another brightness, so that faces along x, y and z are
    distinguishable in a renderer without light.
    """
    boxes = []
    for axis, brightness in enumerate((0.7, 0.85, 1.0)):
        grown = list(half)
        grown[axis] += PROTRUSION
        boxes.append((tuple(grown), tuple(brightness * part for part in colour)))
    return boxes


def urdf(name: str) -> str:
    """Return the URDF of the robot `name`."""
    parts = [f'<robot name="{name}">', _link("base", (0.12, 0.12, 0.06), (0, 0, 0.03), DARK)]
    for parent, joint in _links():
        link = joint.name.replace("joint", "link")
        parts.append(_link(link, joint.box, joint.centre, joint.colour))
        parts.append(
            f'<joint name="{joint.name}" type="{joint.kind}"><parent link="{parent}"/>'
            f'<child link="{link}"/><origin xyz="{_text(joint.at)}"/><axis xyz="{joint.axis}"/>'
            f'<limit lower="{joint.low}" upper="{joint.high}" effort="1000" velocity="10"/></joint>'
        )
    for link, x, z in (("hand", HAND - 0.05, 0.0), ("camera", 0.0, 0.07)):
        parts.append(
            f'<link name="{link}"/><joint name="{link}_joint" type="fixed">'
            f'<parent link="link6"/><child link="{link}"/><origin xyz="{x} 0 {z}"/></joint>'
        )
    return "\n".join([*parts, "</robot>"])


def srdf(name: str) -> str:
    """Return the SRDF of the robot `name`, which disables collision checks within an arm.

    The motions of the expert never fold the arm.
    """
    links = ["base", *(joint.name.replace("joint", "link") for _, joint in _links())]
    pairs = [(a, b) for index, a in enumerate(links) for b in links[index + 1 :]]
    rows = (f'<disable_collisions link1="{a}" link2="{b}" reason="Default"/>' for a, b in pairs)
    return "\n".join([f'<robot name="{name}">', *rows, "</robot>"])


def _link(name: str, box: Vector, centre: Vector, colour: Vector) -> str:
    origin = f'<origin xyz="{_text(centre)}"/>'
    shape = f'{origin}<geometry><box size="{_text(box)}"/></geometry>'
    visuals = "".join(
        f'<visual>{origin}<geometry><box size="{_text(2 * np.array(half))}"/></geometry>'
        f'<material name="{name}{n}"><color rgba="{_text(face_colour)} 1"/></material></visual>'
        for n, (half, face_colour) in enumerate(shaded(tuple(np.array(box) / 2), colour))
    )
    # 1 kg per link, as in RoboTwin; the inertia is that of a ball with a radius of 10 cm
    mass = (
        f'<inertial><origin xyz="{_text(centre)}"/><mass value="1"/>'
        '<inertia ixx="0.004" iyy="0.004" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    return f'<link name="{name}">{mass}{visuals}<collision>{shape}</collision></link>'


def _text(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)
