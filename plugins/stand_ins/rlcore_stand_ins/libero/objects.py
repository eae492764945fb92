"""Stand-ins for objects that move freely: groceries, dishes, mugs, books.

Sizes are those of LIBERO's objects in their own frames, in which bottles and cartons stand along
the y axis. Lengths are in metres, colours are RGB in [0, 1].
"""

from __future__ import annotations

from rlcore_stand_ins.libero.shapes import (
    Body,
    Colour,
    Part,
    Region,
    Thing,
    Vector,
    bowl,
    box,
    cylinder,
    tub,
)

BLACK = (0.08, 0.08, 0.09)
WHITE = (0.92, 0.92, 0.9)
STEEL = (0.6, 0.6, 0.62)
RED = (0.75, 0.12, 0.1)
BROWN = (0.35, 0.2, 0.1)
WICKER = (0.72, 0.53, 0.3)


def _solid(*parts: Part, bottom: float = -0.06, top: float = 0.04, radius: float = 0.025) -> Thing:
    return Thing(Body(parts), bottom=bottom, top=top, radius=radius)


def _can(colour: Colour, bottom: float) -> Thing:
    """Return a tin along y."""
    side = cylinder(0.033, 0.0376, colour, (0.0, -0.0006, 0.0), axis="y")
    label = cylinder(0.0332, 0.02, WHITE, (0.0, -0.0006, 0.0), axis="y")
    return _solid(side, label, bottom=bottom)


def _carton(colour: Colour, radius: float = 0.025) -> Thing:
    """Return a carton with a gable, along y."""
    return _solid(
        box((0.0263, 0.0548, 0.0263), colour, (0.0, -0.015, 0.0)),
        box((0.0262, 0.011, 0.013), WHITE, (0.0, 0.05, 0.0)),
        radius=radius,
    )


def _bottle(colour: Colour, cap: Colour, shift: float = 0.0) -> Thing:
    """Return a flat bottle along y; `shift` is its offset along y in its frame, in metres."""
    body = Body(
        (
            box((0.03, 0.0445, 0.0172), colour, (0.0, -0.0295, 0.0)),
            box((0.02, 0.013, 0.0155), colour, (0.0, 0.027, 0.0)),
            cylinder(0.0155, 0.018, cap, (0.0, 0.0555, 0.0), axis="y"),
        ),
        name="bottle",
        at=(0.0, shift, 0.0),
    )
    return Thing(Body(bodies=(body,)) if shift else Body(body.parts))


def _box_of(size: Vector, colour: Colour, band: Colour, **room: float) -> Thing:
    """Return a flat packet with a band around it.

    Args:
        size: half its edges, in metres.
        colour, band: colours of packet and band.
        room: `bottom`, `top` and `radius` of the :class:`Thing`.
    """
    x, y, z = size
    return _solid(box(size, colour), box((x / 4, y + 0.0003, z + 0.0003), band), **room)


def _mug(colour: Colour, inside: Colour, radius: float, height: float, handle: float) -> Thing:
    """Return a mug with its handle towards -x; `handle` is the x extent from the origin."""
    axis = 0.017  # x offset of the cup: LIBERO's frames are centred on cup and handle together
    reach = handle - (radius - axis)
    grip = [
        box((reach / 2, 0.006, 0.005), colour, (-handle + reach / 2, 0.0, height * level))
        for level in (0.3, 0.75)
    ]
    bar = box((0.004, 0.006, height * 0.25), colour, (-handle + 0.004, 0.0, height * 0.525))
    return _solid(
        *bowl(radius * 0.8, radius, height, colour, (axis, 0.0, 0.0)),
        cylinder(radius * 0.75, 0.0035, inside, (axis, 0.0, 0.0035)),
        *grip,
        bar,
    )


def _book(colour: Colour, size: Vector, at: Vector) -> Thing:
    """Return a book that stands on its edge, with its spine along z."""
    x, y, z = size
    pages = box((x - 0.002, y + 0.0004, z - 0.004), WHITE, at)
    return _solid(box(size, colour, at), pages)


OBJECTS: dict[str, Thing] = {
    "alphabet_soup": _can(RED, bottom=-0.04),
    "tomato_sauce": _can((0.85, 0.3, 0.15), bottom=-0.06),
    "milk": _carton((0.25, 0.45, 0.85), radius=0.03),
    "orange_juice": _carton((0.95, 0.6, 0.1)),
    "ketchup": _bottle((0.8, 0.1, 0.08), WHITE),
    "salad_dressing": _bottle((0.75, 0.7, 0.25), (0.2, 0.5, 0.2)),
    "new_salad_dressing": _bottle((0.75, 0.7, 0.25), (0.2, 0.5, 0.2), shift=0.05),
    "bbq_sauce": _solid(
        box((0.0235, 0.0145, 0.0268), BROWN, (0.0, 0.0, -0.0278)),
        box((0.0146, 0.0143, 0.0181), BROWN, (0.0, 0.0, 0.0123)),
        cylinder(0.0134, 0.0131, RED, (0.0, 0.0, 0.0391)),
        top=0.06,
        radius=0.015,
    ),
    "butter": _box_of(
        (0.0381, 0.0198, 0.0087), (0.95, 0.85, 0.3), WHITE, bottom=-0.02, top=0.02, radius=0.02
    ),
    "cream_cheese": _box_of(
        (0.0406, 0.0213, 0.0089), (0.6, 0.75, 0.95), WHITE, bottom=-0.025, top=0.025, radius=0.03
    ),
    "chocolate_pudding": _box_of((0.0401, 0.0232, 0.0137), BROWN, (0.9, 0.75, 0.5)),
    "cookies": _box_of((0.0310, 0.0413, 0.0094), (0.2, 0.3, 0.65), (0.9, 0.75, 0.4)),
    "akita_black_bowl": _solid(*bowl(0.041, 0.052, 0.054, BLACK, foot=(0.031, 0.0105))),
    "white_bowl": _solid(*bowl(0.024, 0.041, 0.035, WHITE)),
    "glazed_rim_porcelain_ramekin": _solid(*bowl(0.036, 0.041, 0.043, WHITE)),
    "plate": _solid(*bowl(0.043, 0.067, 0.0155, (0.85, 0.8, 0.75), wall=0.0025)),
    "basket": Thing(
        Body(
            tub((0.066, 0.066, 0.066), 0.014, WICKER, (0.0, 0.0, 0.005)),
            (Region("contain_region", (0.06108, 0.06108, 0.06949), (0.0, 0.0, 0.07185)),),
        )
    ),
    "wooden_tray": Thing(
        Body(
            tub((0.139, 0.076, 0.036), 0.007, WICKER, (0.0078, -0.0056, 0.0)),
            (Region("contain_region", (0.13549, 0.07839, 0.04038), (0.00863, -0.00471, 0.04255)),),
        )
    ),
    "wine_bottle": _solid(
        cylinder(0.021, 0.0365, (0.1, 0.22, 0.12), (0.0, 0.0, 0.0365)),
        cylinder(0.013, 0.008, (0.1, 0.22, 0.12), (0.0, 0.0, 0.081)),
        cylinder(0.0075, 0.035, BROWN, (0.0, 0.0, 0.1235)),
    ),
    "moka_pot": _solid(
        cylinder(0.034, 0.0666, STEEL, (0.0, 0.0, 0.0004)),
        box((0.0070, 0.022, 0.006), BLACK, (0.0, 0.052, 0.056)),
        box((0.0070, 0.006, 0.03), BLACK, (0.0, 0.073, 0.03)),
        box((0.0075, 0.012, 0.012), STEEL, (0.0, -0.043, 0.045)),
    ),
    "chefmate_8_frypan": _solid(
        *bowl(0.075, 0.097, 0.042, (0.2, 0.2, 0.22), wall=0.006),
        box((0.075, 0.011, 0.005), BLACK, (0.165, 0.0, 0.04)),
    ),
    "porcelain_mug": _mug(WHITE, WHITE, 0.046, 0.112, 0.063),
    "white_yellow_mug": _mug(WHITE, (0.9, 0.75, 0.15), 0.05, 0.103, 0.066),
    "red_coffee_mug": _mug(RED, WHITE, 0.044, 0.132, 0.061),
    "black_book": _book(BLACK, (0.0143, 0.0552, 0.0672), (-0.0005, -0.0122, 0.0694)),
    "yellow_book": _book((0.9, 0.75, 0.1), (0.0125, 0.05, 0.0605), (0.0025, -0.0007, 0.062)),
}
