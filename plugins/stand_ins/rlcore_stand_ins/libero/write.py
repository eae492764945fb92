"""Write stand-ins to the files that LIBERO reads: MJCF for objects and rooms, PNG for textures.

In robosuite, geoms of group 1 are visible and geoms of group 0 collide, so each part is written
twice. A cylinder collides as four boxes with an octagonal outline, because objects on MuJoCo's
cylinders rock until they fall.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import replace
from math import cos, pi, sin
from pathlib import Path

import numpy as np
from PIL import Image
from rlcore_env_libero.assets import SCENES, object_files
from rlcore_env_libero.installed import libero_folder

from rlcore_stand_ins.libero.fixtures import FIXTURES
from rlcore_stand_ins.libero.objects import OBJECTS
from rlcore_stand_ins.libero.scenes import ROOMS, TABLE_PARTS, TEXTURES, Room
from rlcore_stand_ins.libero.shapes import Body, Colour, Part, Region, Thing, Vector

# Contact stiffness, density and friction of LIBERO's objects.
SOLID = {
    "solimp": "0.998 0.998 0.001",
    "solref": "0.001 1",
    "density": "100",
    "friction": "0.95 0.3 0.1",
}
SEEN = {"contype": "0", "conaffinity": "0", "group": "1", "mass": "0"}
# Inertia of a jointed body, as LIBERO's drawers, doors and knobs have it.
INERTIA = {"pos": "0 0 0", "mass": "3", "diaginertia": "1 1 1"}
TILE = 64  # pixels


def write_stand_ins(root: Path) -> None:
    """Write all stand-ins into an existing folder, at LIBERO's paths."""
    places = object_files(libero_folder())
    for name, thing in {**OBJECTS, **FIXTURES}.items():
        file = root / places[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, _thing(name, thing))
    (root / "scenes").mkdir()
    (root / "textures").mkdir()
    for scene, textures in SCENES.values():
        _write(root / "scenes" / f"{scene}.xml", _room(ROOMS[scene], *textures))
        for texture in textures:
            _tile(*TEXTURES[texture]).save(root / "textures" / f"{texture}.png")


def _write(file: Path, root: ET.Element) -> None:
    ET.ElementTree(root).write(file)


def _thing(name: str, thing: Thing) -> ET.Element:
    root = ET.Element("mujoco", model=name)
    ET.SubElement(root, "asset")
    outer = ET.SubElement(ET.SubElement(root, "worldbody"), "body")
    outer.append(_body(thing.body))
    for site, at in (
        ("bottom_site", (0.0, 0.0, thing.bottom)),
        ("top_site", (0.0, 0.0, thing.top)),
        ("horizontal_radius_site", (thing.radius, thing.radius, 0.0)),
    ):
        ET.SubElement(outer, "site", name=site, pos=_text(at), size="0.005", rgba="0 0 0 0")
    return root


def _body(body: Body) -> ET.Element:
    element = ET.Element("body", name=body.name, pos=_text(body.at), quat=_quaternion(body.turn))
    if body.joint is not None:
        joint = body.joint
        ET.SubElement(element, "inertial", INERTIA)
        ET.SubElement(
            element,
            "joint",
            name=joint.name,
            type=joint.kind,
            axis=_text(joint.axis),
            limited="true",
            range=_text(joint.range),
            damping=_text([joint.damping]),
        )
    element.extend(_site(region) for region in body.regions)
    for part in body.parts:
        element.append(_geom(part, SEEN))
        element.extend(_geom(piece, {**SOLID, "group": "0"}) for piece in _collision_boxes(part))
    element.extend(_body(inner) for inner in body.bodies)
    return element


def _site(region: Region) -> ET.Element:
    colour = (*region.colour, 1.0) if region.colour else (0.8, 0.8, 0.8, 0.0)
    return ET.Element(
        "site",
        name=region.name,
        type=region.shape,
        size=_text(region.size),
        pos=_text(region.at),
        quat=_quaternion(region.turn),
        rgba=_text(colour),
    )


def _collision_boxes(part: Part) -> list[Part]:
    """Return the boxes that represent a part in collisions."""
    if part.shape == "box":
        return [part]
    radius, half = part.size
    size = radius * cos(pi / 8), radius * sin(pi / 8), half
    return [
        replace(part, shape="box", size=size, spin=part.spin + number * pi / 4)
        for number in range(4)
    ]


def _geom(part: Part, attributes: dict[str, str]) -> ET.Element:
    return ET.Element(
        "geom",
        {
            **attributes,
            "type": part.shape,
            "size": _text(part.size),
            "pos": _text(part.at),
            "quat": _quaternion(part.turn, part.spin),
            "rgba": _text((*part.colour, 1.0)),
        },
    )


def _room(room: Room, floor: str, wall: str) -> ET.Element:
    root = ET.Element("mujoco", model="room")
    asset = ET.SubElement(root, "asset")
    world = ET.SubElement(root, "worldbody")
    ET.SubElement(
        asset,
        "texture",
        type="skybox",
        builtin="gradient",
        width="256",
        height="256",
        rgb1=".9 .9 1",
        rgb2=".2 .3 .4",
    )
    for texture, material, file in (
        ("texplane", "floorplane", floor),
        ("tex-wall", "walls_mat", wall),
    ):
        ET.SubElement(asset, "texture", name=texture, type="2d", file=f"../textures/{file}.png")
        ET.SubElement(
            asset,
            "material",
            name=material,
            texture=texture,
            texrepeat="3 3",
            texuniform="true",
            reflectance="0",
            shininess="0",
            specular="0",
        )
    ground = ET.SubElement(world, "body", name="floor") if room.floor_body else world
    ET.SubElement(
        ground,
        "geom",
        name="floor",
        type="plane",
        size="3 3 .125",
        condim="3",
        group="1",
        material="floorplane",
    )
    for side, size, at in (
        ("rear", (0.01, 3.0, 1.5), (-2.0, 0.0, 1.5)),
        ("left", (2.5, 0.01, 1.5), (0.5, 3.0, 1.5)),
        ("right", (2.5, 0.01, 1.5), (0.5, -3.0, 1.5)),
        ("front", (0.01, 3.0, 1.5), (3.0, 0.0, 1.5)),
    ):
        ET.SubElement(
            world,
            "geom",
            SEEN,
            name=f"wall_{side}_visual",
            type="box",
            size=_text(size),
            pos=_text(at),
            material="walls_mat",
        )
    world.extend(_geom(part, SEEN) for part in room.behind)
    if room.workspace is not None:
        world.append(_body(room.workspace))
    if room.table:
        world.append(_table())
    for number, at in enumerate(((1.0, 1.0, 4.0), (-3.0, -3.0, 4.0)), start=1):
        ET.SubElement(
            world,
            "light",
            name=f"light{number}",
            pos=_text(at),
            dir="0 -.15 -1",
            diffuse=".8 .8 .8",
            specular=".3 .3 .3",
            directional="false",
            castshadow="false",
        )
    for camera in ("frontview", "birdview", "agentview", "sideview"):  # LIBERO sets their poses
        ET.SubElement(world, "camera", name=camera, mode="fixed", pos="1 0 1.5")
    return root


def _table() -> ET.Element:
    """Return a table, which LIBERO sizes and places."""
    table = ET.Element("body", name="table")
    for name in TABLE_PARTS:
        is_leg = "leg" in name
        attributes = {"group": "0"} if name == "table_collision" else SEEN
        ET.SubElement(
            table,
            "geom",
            attributes,
            name=name,
            type="cylinder" if is_leg else "box",
            size="0.05 0.1" if is_leg else "0.4 0.4 0.4",
            rgba="0.4 0.3 0.2 1" if is_leg else "0.62 0.44 0.28 1",
        )
    ET.SubElement(table, "site", name="table_top", size="0.001 0.001 0.001", rgba="0 0 0 0")
    return table


def _tile(colour: Colour, joint: Colour) -> Image.Image:
    """Return the image of a floor tile, `TILE` pixels wide, with grout along two of its edges."""
    pixels = np.empty((TILE, TILE, 3))
    pixels[:] = colour
    pixels[:2] = joint
    pixels[:, :2] = joint
    return Image.fromarray((pixels * 255).astype(np.uint8))


def _text(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.6g}" for number in numbers)


def _quaternion(turn: Vector, spin: float = 0.0) -> str:
    """Return the quaternion of a spin about z and then rotations about x, y, z; real part first."""
    quaternion = np.array([cos(spin / 2), 0.0, 0.0, sin(spin / 2)])
    for axis, angle in enumerate(turn):
        real, *imaginary = quaternion
        cosine = cos(angle / 2)
        axis_part = sin(angle / 2) * np.eye(3)[axis]
        quaternion = np.array(
            [
                cosine * real - axis_part @ imaginary,
                *(cosine * np.array(imaginary) + real * axis_part + np.cross(axis_part, imaginary)),
            ]
        )
    return _text(quaternion)
