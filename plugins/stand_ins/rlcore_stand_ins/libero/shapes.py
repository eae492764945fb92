"""Elements of stand-ins. Lengths are in metres; sizes are half sizes, as in MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, pi, sin

Vector = tuple[float, float, float]
Colour = tuple[float, float, float]
ORIGIN: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Part:
    """A solid piece that is visible and collides.

    Attributes:
        shape: "box" or "cylinder".
        size: half the edges of a box; radius and half the length of a cylinder.
        at: position of the centre.
        colour: RGB in [0, 1].
        turn: rotations about x, y and z, in radians, which are applied in this order.
        spin: rotation about the part's own z axis in radians, which is applied first.
    """

    shape: str
    size: tuple[float, ...]
    at: Vector
    colour: Colour
    turn: Vector = ORIGIN
    spin: float = 0.0


@dataclass(frozen=True)
class Region:
    """A volume that goals of tasks refer to; it does not collide.

    Attributes:
        name: name of the region.
        size, at, turn, shape: like those of a :class:`Part`.
        colour: RGB of a region that is sometimes visible, e.g. a burner's glow; None: invisible.
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
        name: name of the joint.
        kind: "hinge" or "slide".
        axis: axis of the rotation or translation.
        range: lowest and highest position, in radians or metres.
        damping: damping coefficient, in N m s/rad (hinge) or N s/m (slide).
    """

    name: str
    kind: str
    axis: Vector
    range: tuple[float, float]
    damping: float


@dataclass(frozen=True)
class Body:
    """Parts and regions that move together, and child bodies.

    Attributes:
        parts: solid pieces.
        regions: volumes that goals refer to.
        name: name of the body.
        at, turn: position and rotations relative to the parent body.
        joint: joint to the parent body; None: fixed to it.
        bodies: child bodies.
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
    """An object or a fixture: its body, and the room that LIBERO's placement reserves for it.

    Attributes:
        body: body without a joint; LIBERO adds a free joint to objects.
        bottom, top: heights of the lowest and highest point in its frame, as LIBERO has them.
        radius: horizontal radius that the placement keeps free.
    """

    body: Body
    bottom: float = -0.06
    top: float = 0.04
    radius: float = 0.025


def box(size: Vector, colour: Colour, at: Vector = ORIGIN, turn: Vector = ORIGIN) -> Part:
    """Return a box; `size` is half its edges."""
    return Part("box", size, at, colour, turn)


def pair(size: Vector, colour: Colour, middle: Vector, aside: Vector) -> tuple[Part, Part]:
    """Return two equal boxes, centred at `middle - aside` and `middle + aside`."""
    x, y, z = middle
    dx, dy, dz = aside
    first = (x - dx, y - dy, z - dz)
    second = (x + dx, y + dy, z + dz)
    return box(size, colour, first), box(size, colour, second)


def cylinder(
    radius: float, half: float, colour: Colour, at: Vector = ORIGIN, axis: str = "z"
) -> Part:
    """Return a cylinder along an axis; `half` is half its length."""
    turn = {"x": (0.0, pi / 2, 0.0), "y": (pi / 2, 0.0, 0.0), "z": ORIGIN}[axis]
    return Part("cylinder", (radius, half), at, colour, turn)


def tub(inner: Vector, wall: float, colour: Colour, at: Vector = ORIGIN) -> tuple[Part, ...]:
    """Return a box without lid: a floor and four walls.

    Args:
        inner: half of the inner edges.
        wall: thickness of walls and floor.
        at: centre of the floor's lower side.
    """
    x, y, z = inner
    # half the height of the walls, which begin at the lower side of the floor
    height = z + wall / 2
    low = at[2] + wall / 2
    centre = (at[0], at[1], at[2] + height)
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
    """Return a round vessel: a disc, and a ring of leaning boxes on its edge.

    Args:
        bottom, rim: radii of the disc and of the upper edge.
        height: height of the upper edge above the disc's lower side.
        at: centre of the disc's lower side.
        wall: thickness of the ring, and half the thickness of the disc.
        foot: for a round bowl, radius of a smaller disc instead of the first one, and height of a
            flatter, thicker ring from that disc to `bottom`. With its steep wall alone, a bowl
            would jam in the vessel below it.
    """
    x, y, z = at
    if foot is None:
        disc = cylinder(bottom, wall, colour, (x, y, z + wall))
        return (disc, *_ring(bottom, rim, height, colour, at, wall))
    radius, low = foot
    thick = 3 * wall
    lean = atan2(bottom - radius, low)
    inside = thick / 2 * cos(lean)  # from the outer side, which begins at the ground, to the middle
    at = (x, y, z + thick / 2 * sin(lean))
    return (
        cylinder(radius, wall, colour, (x, y, z + wall)),
        *_ring(radius - inside, bottom - inside, low, colour, at, thick),
        *_ring(bottom, rim, height - low, colour, (x, y, z + low), wall),
    )


def _ring(
    lower: float, upper: float, height: float, colour: Colour, at: Vector, wall: float
) -> tuple[Part, ...]:
    """Return a ring of leaning boxes between two circles, which are `height` apart."""
    sides = 12
    lean = atan2(upper - lower, height)
    middle = (lower + upper) / 2
    half = height / (2 * cos(lean))
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
