"""Stand-ins for fixtures, with doors, drawers and knobs that move."""

from __future__ import annotations

from math import pi

from rlcore_stand_ins.libero.objects import BLACK, STEEL, WHITE, WICKER
from rlcore_stand_ins.libero.shapes import (
    Body,
    Colour,
    Hinge,
    Part,
    Region,
    Thing,
    box,
    cylinder,
    pair,
)

WOOD = (0.36, 0.22, 0.13)
# Heights and radius with which LIBERO places articulated fixtures, in metres.
ARTICULATED = {"bottom": -0.045, "top": 0.045, "radius": 0.045}


def _drawer(name: str, floor: float, colour: Colour, front: Colour) -> Body:
    """Return a drawer that slides out towards -y; `floor` is the height of its lower side."""
    side = 0.0316
    middle = floor + 0.0316
    inside = Region(f"{name}_region", (0.10224, 0.07561, 0.02993), (0.0033, 0.0113, middle + 0.003))
    parts = (
        box((0.107, 0.081, 0.004), colour, (0.0035, 0.0105, floor + 0.004)),
        box((0.109, 0.0035, side + 0.0025), front, (0.0033, -0.0745, middle)),
        box((0.107, 0.0035, side), colour, (0.0033, 0.0908, middle)),
        *pair((0.0024, 0.0815, side), colour, (0.0035, 0.011, middle), (0.1054, 0.0, 0.0)),
        box((0.0445, 0.0075, 0.008), STEEL, (-0.0028, -0.1017, middle)),
        *pair((0.0055, 0.0106, 0.005), STEEL, (-0.0032, -0.0835, middle), (0.0324, 0.0, 0.0)),
    )
    joint = Hinge(f"{name}_level", "slide", (0.0, 1.0, 0.0), (-0.16, 0.01), damping=50.0)
    return Body(parts, (inside,), name=f"cabinet_{name}", joint=joint)


def _cabinet(colour: Colour, front: Colour) -> Thing:
    """Return a cabinet with three drawers, open towards -y."""
    walls = (
        *pair((0.0052, 0.0954, 0.1058), colour, (0.0034, 0.0163, 0.1143), (0.1156, 0.0, 0.0)),
        box((0.119, 0.0023, 0.1058), colour, (0.0021, 0.1094, 0.1143)),
        *(box((0.1117, 0.0894, 0.0009), colour, (0.0039, 0.0187, z)) for z in (0.0793, 0.1494)),
        box((0.1228, 0.0896, 0.002), colour, (0.0041, 0.0164, 0.0069)),
        box((0.1273, 0.0941, 0.0014), colour, (0.0039, 0.0158, 0.2216)),
    )
    top = Region("top_side", (0.12534, 0.09438, 0.00147), (0.00354, 0.01567, 0.22152))
    drawers = tuple(
        _drawer(name, floor, colour, front)
        for name, floor in (("top", 0.1511), ("middle", 0.0814), ("bottom", 0.0128))
    )
    base = Body(walls, (top,), name="base", bodies=drawers)
    return Thing(Body(bodies=(base,)), **ARTICULATED)


def _stove() -> Thing:
    """Return a stove: a plate at x = 15 cm, and at the origin the knob that turns it on."""
    plate = Body(
        (
            box((0.095, 0.095, 0.02), STEEL),
            cylinder(0.065, 0.0025, BLACK, (0.0, 0.0, 0.0225)),
        ),
        (
            Region("cook_region", (0.075, 0.075, 0.0025), (0.0, 0.0, 0.0)),
            Region(
                "burner",
                (0.0625, 0.0005),
                (0.0, 0.0, 0.0256),
                shape="cylinder",
                colour=(0.9, 0.05, 0.05),
            ),
        ),
        name="burner",
        at=(0.15, 0.0, 0.0),
    )
    knob = Body(
        (
            cylinder(0.042, 0.0062, BLACK, (0.001, 0.004, 0.0066)),
            box((0.0121, 0.04, 0.0125), BLACK, (0.001, 0.003, 0.0255)),
        ),
        name="button",
        turn=(0.0, 0.0, pi / 2),
        joint=Hinge("button", "hinge", (0.0, 0.0, 1.0), (-0.005, 2.1), damping=1.0),
    )
    return Thing(Body(bodies=(Body(name="base", bodies=(plate, knob)),)), **ARTICULATED)


def _microwave() -> Thing:
    """Return a microwave, whose door faces -y and has its hinge on the left."""
    shell = (
        box((0.0145, 0.0996, 0.0935), WHITE, (-0.158, 0.0115, 0.0935)),
        box((0.0545, 0.0996, 0.0935), WHITE, (0.118, 0.0115, 0.0935)),
        box((0.1035, 0.015, 0.0935), WHITE, (-0.0405, 0.0955, 0.0935)),
        box((0.1035, 0.0845, 0.0095), WHITE, (-0.04, -0.0035, 0.1775)),
        box((0.1035, 0.084, 0.012), WHITE, (-0.04, -0.004, 0.012)),
        box((0.0425, 0.012, 0.0935), BLACK, (0.13, -0.0985, 0.0935)),
    )
    regions = (
        Region("top_side", (0.12, 0.0835, 0.005), (0.0, 0.01, 0.20)),
        Region("heating_region", (0.12, 0.0835, 0.08), (0.0, 0.01, 0.096)),
    )
    door = Body(
        (
            box((0.1295, 0.012, 0.0925), BLACK, (0.1295, -0.013, 0.0)),
            box((0.007, 0.007, 0.075), STEEL, (0.2375, -0.054, 0.0)),
            *(box((0.007, 0.016, 0.007), STEEL, (0.2375, -0.037, s * 0.065)) for s in (-1, 1)),
        ),
        name="microdoorroot",
        at=(-0.1725, -0.088, 0.096),
        joint=Hinge("microjoint", "hinge", (0.0, 0.0, 1.0), (-2.094, 0.0), damping=0.5),
    )
    return Thing(Body(shell, regions, bodies=(door,)), bottom=-0.06, top=0.06, radius=0.015)


def _wine_rack() -> Thing:
    """Return a wine rack: two leaning boards on a stand, with an upper ledge for a bottle."""
    light = (0.75, 0.58, 0.36)
    lean = 0.5458
    across = -1.0594
    boards: tuple[Part, ...] = (
        box((0.1344, 0.0789, 0.0045), light, (0.0, -0.0061, 0.2512), (lean, 0.0, 0.0)),
        box((0.1344, 0.0789, 0.0045), light, (0.0, -0.0427, 0.1273), (lean, 0.0, 0.0)),
        box((0.1322, 0.0087, 0.0011), WICKER, (0.0, -0.0748, 0.2207), (across, 0.0, 0.0)),
        box((0.1322, 0.0087, 0.0011), WICKER, (0.0, -0.1091, 0.0974), (across, 0.0, 0.0)),
    )
    stand = (
        box((0.093, 0.0665, 0.0045), WOOD, (0.0, 0.0, 0.0066)),
        *(
            box((0.09, 0.06, 0.0045), WOOD, (0.0, s * 0.067, 0.0113), (s * -0.135, 0.0, 0.0))
            for s in (-1, 1)
        ),
        box((0.0076, 0.0091, 0.1617), WOOD, (0.0, 0.0089, 0.1703), (-0.277, 0.0, 0.0)),
    )
    top = Region(
        "top_region", (0.10087, 0.022, 0.00251), (0.0, -0.08003, 0.21745), (-1.0908, 0.0, 0.0)
    )
    return Thing(Body((*boards, *stand), (top,)))


def _desk_caddy() -> Thing:
    """Return a desk organiser: compartments left and right, a tall and a low one in between."""
    grey = (0.45, 0.47, 0.5)
    parts = (
        box((0.0755, 0.2169, 0.0062), grey, (0.0, 0.0, 0.0076)),
        *(box((0.0706, 0.0062, 0.0824), grey, (0.0, y, 0.085)) for y in (-0.068, -0.2094)),
        *(box((0.0706, 0.0036, 0.0333), grey, (0.0, y, 0.0452)) for y in (0.0707, 0.2086)),
        *(box((0.0368, 0.0036, 0.0299), grey, (0.0345, y, 0.0749)) for y in (0.0706, 0.2082)),
        box((0.004, 0.2098, 0.0815), grey, (0.0668, 0.0, 0.0868)),
        box((0.004, 0.0668, 0.0434), grey, (-0.0016, 0.0, 0.0552)),
        box((0.004, 0.2098, 0.0345), grey, (-0.0669, 0.0, 0.0395)),
        box((0.004, 0.0796, 0.0766), grey, (-0.0669, -0.1398, 0.0877)),
    )
    regions = (
        Region("right_contain_region", (0.06196, 0.06216, 0.06046), (0.00631, -0.14339, 0.06558)),
        Region("left_contain_region", (0.06196, 0.06216, 0.06046), (0.00631, 0.14551, 0.06558)),
        Region("back_contain_region", (0.02775, 0.06216, 0.06046), (0.03364, -0.00064, 0.08558)),
        Region("front_contain_region", (0.02775, 0.06216, 0.03595), (-0.03102, -0.00064, 0.04054)),
    )
    return Thing(Body(parts, regions))


def _two_layer_shelf() -> Thing:
    """Return a shelf of two layers, open towards -y."""
    parts = (
        *pair((0.0071, 0.0954, 0.1044), WOOD, (0.0047, 0.0163, 0.1046), (0.1584, 0.0, 0.0)),
        box((0.1633, 0.0023, 0.1044), WOOD, (0.0029, 0.1094, 0.1046)),
        box((0.1532, 0.0894, 0.0009), WOOD, (0.0052, 0.0187, 0.07)),
        box((0.1756, 0.0951, 0.0021), WOOD, (0.005, 0.0164, 0.2082)),
    )
    regions = (
        Region("top_side", (0.17557, 0.09438, 0.00147), (0.00496, 0.01567, 0.20688)),
        Region("top_region", (0.15093, 0.08564, 0.06739), (0.00538, 0.01687, 0.13672)),
        Region("bottom_region", (0.1558, 0.08564, 0.03528), (0.00555, 0.01687, 0.01407)),
    )
    return Thing(Body(parts, regions))


FIXTURES: dict[str, Thing] = {
    "wooden_cabinet": _cabinet(WOOD, (0.42, 0.27, 0.16)),
    "white_cabinet": _cabinet(WHITE, (0.85, 0.85, 0.83)),
    "flat_stove": _stove(),
    "microwave": _microwave(),
    "wine_rack": _wine_rack(),
    "desk_caddy": _desk_caddy(),
    "wooden_two_layer_shelf": _two_layer_shelf(),
}
