"""Stand-ins for LIBERO's rooms: textures, furniture, and the table on which the arm works."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_stand_ins.libero.shapes import Body, Colour, Part, box

OAK = (0.62, 0.44, 0.28)
# LIBERO's name of a texture -> colours of its tiles, and of the joints between them.
TEXTURES: dict[str, tuple[Colour, Colour]] = {
    "light-gray-floor-tile": ((0.72, 0.72, 0.71), (0.6, 0.6, 0.6)),
    "gray_ceramic_tile": ((0.55, 0.56, 0.58), (0.45, 0.46, 0.47)),
    "seamless_wood_planks_floor": ((0.6, 0.42, 0.27), (0.48, 0.33, 0.2)),
    "light-gray-plaster": ((0.8, 0.8, 0.79), (0.79, 0.79, 0.78)),
    "yellow_linen_wall_texture": ((0.85, 0.78, 0.55), (0.83, 0.76, 0.53)),
}


@dataclass(frozen=True)
class Room:
    """A scene without its objects.

    Attributes:
        floor_body: whether the floor is a separate body, on which LIBERO marks regions.
        workspace: fixed body on which LIBERO marks regions; None: the scene has no such body.
        table: whether the scene has a table, which LIBERO sizes and places: :data:`TABLE_PARTS`.
        behind: furniture in the background.
    """

    floor_body: bool = False
    workspace: Body | None = None
    table: bool = False
    behind: tuple[Part, ...] = ()


# Names in LIBERO of the table's geoms, which LIBERO sizes and places.
TABLE_PARTS = ("table_collision", "table_visual", *(f"table_leg{n}_visual" for n in (1, 2, 3, 4)))

_LOW_TABLE = Body(
    (
        box((0.43, 0.67, 0.0118), OAK, (-0.25, 0.052, 0.4249)),
        box((0.41, 0.43, 0.204), OAK, (-0.25, 0.25, 0.2041)),
    ),
    name="living_room_table",
)
_DESK = Body(
    (
        box((0.6895, 1.3927, 0.0358), OAK, (0.0, 0.0, 0.8493)),
        *(
            box((0.02, 0.05, 0.394), OAK, (x, y, 0.3943))
            for x in (-0.5, 0.496)
            for y in (-0.69, 0.71)
        ),
    ),
    name="study_table",
)
_COUNTER = (
    box((0.3, 1.2, 0.45), (0.55, 0.5, 0.45), (-1.65, 0.0, 0.45)),
    box((0.35, 0.4, 0.9), (0.6, 0.6, 0.62), (-1.65, -2.0, 0.9)),
)
_SHELF = (box((0.15, 0.5, 0.8), (0.5, 0.38, 0.25), (-1.8, -1.0, 0.8)),)
_WALL_UNIT = (box((0.2, 1.2, 0.5), (0.4, 0.33, 0.28), (-1.75, 0.0, 0.5)),)

ROOMS: dict[str, Room] = {
    "libero_floor_base_style": Room(floor_body=True),
    "libero_tabletop_base_style": Room(table=True),
    "libero_kitchen_tabletop_base_style": Room(table=True, behind=_COUNTER),
    "libero_living_room_tabletop_base_style": Room(
        floor_body=True, workspace=_LOW_TABLE, behind=_WALL_UNIT
    ),
    "libero_study_base_style": Room(workspace=_DESK, behind=_SHELF),
}
