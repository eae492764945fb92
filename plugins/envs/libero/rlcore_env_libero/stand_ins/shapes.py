"""What a stand-in is made of. Lengths in metres, sizes as MuJoCo's: halves."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, pi, sin

Vector = tuple[float, float, float]
Colour = tuple[float, float, float]
ORIGIN: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Part:
    """A solid piece, seen and touched.

    Attributes:
        shape: "box" or "cylinder".
        size: of a box half its edges; of a cylinder its radius and half its length.
        at: its centre.
        colour: red, green, blue in [0, 1].
        turn: rotations about x, y and z, in radians, one after another.
        spin: one about its own z, before them.
    """

    shape: str
    size: tuple[float, ...]
    at: Vector
    colour: Colour
    turn: Vector = ORIGIN
    spin: float = 0.0


@dataclass(frozen=True)
class Region:
    """A box that the goals of tasks name; nothing touches it.

    Attributes:
        name, size, at, turn: as of a part.
        colour: of one that is shown at times, as the glow of a burner is; None: never shown.
    """

    name: str
    size: tuple[float, ...]
    at: Vector
    turn: Vector = ORIGIN
    shape: str = "box"
    colour: Colour | None = None


@dataclass(frozen=True)
class Hinge:
    """A joint with one degree of freedom.

    Attributes:
        name: of the joint.
        kind: "hinge" or "slide".
        axis: about or along which.
        range: in radians or metres.
        damping: in newton metre seconds, or newton seconds per metre.
    """

    name: str
    kind: str
    axis: Vector
    range: tuple[float, float]
    damping: float


@dataclass(frozen=True)
class Body:
    """Pieces that move together, and bodies that hang on them.

    Attributes:
        joint: to the body it hangs on; None: fixed to it.
    """

    parts: tuple[Part, ...] = ()
    regions: tuple[Region, ...] = ()
    name: str = "object"
    at: Vector = ORIGIN
    turn: Vector = ORIGIN
    joint: Hinge | None = None
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True)
class Thing:
    """An object or a fixture: its body, and how much room LIBERO gives it when it places it.

    Attributes:
        body: without a joint; LIBERO adds one to what moves freely.
        bottom, top: heights of the lowest and highest point where it stands, as LIBERO has them.
        radius: of the circle that it needs.
    """

    body: Body
    bottom: float = -0.06
    top: float = 0.04
    radius: float = 0.025


def box(size: Vector, colour: Colour, at: Vector = ORIGIN, turn: Vector = ORIGIN) -> Part:
    """A box by half its edges."""
    return Part("box", size, at, colour, turn)


def pair(size: Vector, colour: Colour, middle: Vector, aside: Vector) -> tuple[Part, Part]:
    """Two boxes, `aside` of a place and as far to its other side."""
    x, y, z = middle
    dx, dy, dz = aside
    one, other = (x - dx, y - dy, z - dz), (x + dx, y + dy, z + dz)
    return box(size, colour, one), box(size, colour, other)


def cylinder(
    radius: float, half: float, colour: Colour, at: Vector = ORIGIN, axis: str = "z"
) -> Part:
    """A cylinder along an axis."""
    turn = {"x": (0.0, pi / 2, 0.0), "y": (pi / 2, 0.0, 0.0), "z": ORIGIN}[axis]
    return Part("cylinder", (radius, half), at, colour, turn)


def tub(inner: Vector, wall: float, colour: Colour, at: Vector = ORIGIN) -> tuple[Part, ...]:
    """A box without a lid: four walls on a floor.

    Args:
        inner: half of its inner edges.
        at: centre of the floor's lower side.
    """
    x, y, z = inner
    height = z + wall / 2  # half of it; the walls reach down to the lower side of the floor
    low, centre = at[2] + wall / 2, (at[0], at[1], at[2] + height)
    return (
        box((x + wall, y + wall, wall / 2), colour, (at[0], at[1], low)),
        *pair((wall / 2, y + wall, height), colour, centre, (x + wall / 2, 0.0, 0.0)),
        *pair((x + wall, wall / 2, height), colour, centre, (0.0, y + wall / 2, 0.0)),
    )


def bowl(
    bottom: float,
    rim: float,
    height: float,
    colour: Colour,
    at: Vector = ORIGIN,
    wall: float = 0.003,
    foot: tuple[float, float] | None = None,
) -> tuple[Part, ...]:
    """A round vessel: a disc, and a ring of leaning boxes on its edge.

    Args:
        bottom, rim: radii of the disc, and of the upper edge.
        height: from the lower side of the disc to the edge.
        at: centre of the disc's lower side.
        foot: of a round bowl, radius of a smaller disc in place of the first one, and height of a
            flatter, thicker ring from there to `bottom`. On its steep wall a bowl would jam in
            the vessel on which it stands.
    """
    x, y, z = at
    if foot is None:
        disc = cylinder(bottom, wall, colour, (x, y, z + wall))
        return (disc, *_ring(bottom, rim, height, colour, at, wall))
    radius, low = foot
    thick, lean = 3 * wall, atan2(bottom - radius, low)
    inside = thick / 2 * cos(lean)  # of the outer side, which begins on the ground
    at = (x, y, z + thick / 2 * sin(lean))
    return (
        cylinder(radius, wall, colour, (x, y, z + wall)),
        *_ring(radius - inside, bottom - inside, low, colour, at, thick),
        *_ring(bottom, rim, height - low, colour, (x, y, z + low), wall),
    )


def _ring(
    lower: float, upper: float, height: float, colour: Colour, at: Vector, wall: float
) -> tuple[Part, ...]:
    """Leaning boxes between two circles, `height` apart."""
    sides = 12
    lean = atan2(upper - lower, height)
    middle, half = (lower + upper) / 2, height / (2 * cos(lean))
    width = upper * sin(pi / sides) * 1.05  # neighbours overlap a little
    return tuple(
        box(
            (wall / 2, width, half),
            colour,
            (at[0] + middle * cos(a), at[1] + middle * sin(a), at[2] + height / 2),
            (0.0, lean, a),
        )
        for a in (2 * pi * number / sides for number in range(sides))
    )
