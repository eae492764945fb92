"""Simplify the rendered geometry to the resolution of the frames.

The renderer uploads the geometry of a scene once, from a model. This module makes that model: a
copy of the simulated one, in which visual meshes have fewer faces, and textures fewer texels. The
number of faces depends on the nearest distance of the cameras to the mesh. The simulation does not
use the copy, so states are bitwise identical.
"""

from __future__ import annotations

import copy
import math
from weakref import WeakKeyDictionary

import mujoco
import numpy as np
from rlcore_simulation.detail import EXACT
from rlcore_simulation.kept_meshes import kept, shared_width
from rlcore_simulation.simplify import Mesh

from rlcore_mujoco.model import Kept
from rlcore_mujoco.nearness import Sight, at_rest, camera_at_rest
from rlcore_mujoco.still import can_keep
from rlcore_mujoco.textures import reduce_textures
from rlcore_mujoco.view import View

# Arrays of a model that hold positions and orientations. Episodes change some of them, and the
# simplified meshes must not depend on those changes.
PLACES = ("body_pos", "body_quat", "geom_pos", "geom_quat", "cam_pos", "cam_quat", "qpos0")
# Quads along a side of flat primitives: enough to show how the light varies along them.
FLAT = 2
# Meshes with fewer faces than this are not simplified.
FEW = 200

_built: WeakKeyDictionary[mujoco.MjModel, Kept] = WeakKeyDictionary()


def remember(model: mujoco.MjModel) -> None:
    """Save the positions and orientations in a model that was just compiled."""
    _built[model] = Kept(model, PLACES)


def drawn_model(model: mujoco.MjModel, view: View) -> mujoco.MjModel:
    """Return the model whose geometry is uploaded to render `model` with the cameras of a view.

    Returns:
        copy of `model` with smaller textures and simplified meshes; `model` itself for exact
        detail. Its meshes are exact if one of the cameras moves, because such a camera may come
        near to any geom.
    """
    cameras = view.cameras.values()
    if view.detail == EXACT:
        return model
    simplified = copy.copy(model)
    height = max(camera.height for camera in cameras)
    reduce_textures(simplified, height)
    if not all(camera_at_rest(model, camera) for camera in cameras):
        return simplified
    if model in _built:
        _built[model].put(simplified)
    caches_statics = all(
        can_keep(model, view, model.camera(camera.name).id) for camera in view.cameras.values()
    )
    _simplify_primitives(simplified, height, flat=not caches_statics)
    geoms = drawn_meshes(model, view)
    if len(geoms):
        sights = [Sight(simplified, camera, geoms) for camera in view.cameras.values()]
        widths = np.min([sight.widths for sight in sights], axis=0)
        numbers = model.geom_dataid[geoms]
        textured = _textured(model, geoms)
        fixed = at_rest(model, geoms)
        for mesh in np.unique(numbers[~fixed] if caches_statics else numbers):
            users = numbers == mesh
            width = shared_width(widths[users].min())
            visible = np.max(
                [sight.seen(geom) for sight in sights for geom in geoms[users]], axis=0
            )
            _simplify(simplified, int(mesh), width, visible, textured=bool(textured[users].any()))
    return simplified


def _simplify_primitives(model: mujoco.MjModel, height: int, *, flat: bool) -> None:
    """Reduce the number of faces of primitives, in place.

    A circle whose radius is a quarter of the frame's height deviates from the exact one by half a
    pixel at most.

    Args:
        model: model to change.
        height: height of the highest frame, in pixels.
        flat: whether flat primitives get fewer quads, too.
    """
    quality = model.vis.quality
    slices = math.ceil(math.pi * math.sqrt(height / 4))
    quality.numslices = min(quality.numslices, slices)
    quality.numstacks = min(quality.numstacks, math.ceil(slices / 2))
    if flat:
        quality.numquads = min(quality.numquads, FLAT)


def drawn_meshes(model: mujoco.MjModel, view: View) -> np.ndarray:
    """Return the ids of the visible mesh geoms, `[G]`."""
    options = mujoco.MjvOption()
    options.geomgroup[list(view.hidden_groups)] = 0
    visible = options.geomgroup[model.geom_group.clip(0, len(options.geomgroup) - 1)] > 0
    meshes = model.geom_type == mujoco.mjtGeom.mjGEOM_MESH.value
    return np.nonzero(visible & meshes & (model.geom_dataid >= 0))[0]


def _textured(model: mujoco.MjModel, geoms: np.ndarray) -> np.ndarray:
    """Check which of these mesh geoms are textured, bool `[G]`."""
    if not model.nmat:
        return np.zeros(len(geoms), dtype=bool)
    materials = model.geom_matid[geoms]
    textures = model.mat_texid.reshape(model.nmat, -1)
    has: np.ndarray = (materials >= 0) & (textures[materials] >= 0).any(axis=1)
    return has & (model.mesh_texcoordadr[model.geom_dataid[geoms]] >= 0)


def _simplify(
    model: mujoco.MjModel, number: int, pixel: float, seen: np.ndarray, *, textured: bool
) -> None:
    """Replace a mesh of a model by a simpler one, in place.

    The mesh does not change if the simpler one does not fit into its part of the model's arrays.

    Args:
        model: model to change.
        number: id of the mesh.
        pixel: width of a pixel in metres where a camera comes nearest to the mesh.
        seen: weights of its faces, see :meth:`rlcore_mujoco.nearness.Sight.seen`, float32 `[F]`.
        textured: whether a geom with this mesh has a texture.
    """
    first = model.mesh_faceadr[number]
    count = model.mesh_facenum[number]
    if count < FEW:
        return
    faces = slice(first, first + count)
    points = _part(model.mesh_vert, model.mesh_vertadr, model.mesh_vertnum, number)
    normals = _part(model.mesh_normal, model.mesh_normaladr, model.mesh_normalnum, number)
    texcoords = None
    if textured:
        texcoords = _part(
            model.mesh_texcoord, model.mesh_texcoordadr, model.mesh_texcoordnum, number
        )
    mesh = Mesh(
        points,
        normals,
        texcoords,
        model.mesh_face[faces],
        model.mesh_facenormal[faces],
        model.mesh_facetexcoord[faces] if textured else np.zeros((count, 3), dtype=np.int32),
    )
    simple = kept(mesh, pixel, seen)
    too_long = len(simple.faces) >= count or len(simple.normals) > len(normals)
    if texcoords is not None and simple.texcoords is not None:
        too_long |= len(simple.texcoords) > len(texcoords)
    if too_long:
        return
    model.mesh_facenum[number] = len(simple.faces)
    faces = slice(first, first + len(simple.faces))
    model.mesh_face[faces] = simple.faces
    model.mesh_facenormal[faces] = simple.face_normals
    normals[: len(simple.normals)] = simple.normals
    model.mesh_facetexcoord[faces] = simple.face_texcoords
    if texcoords is not None and simple.texcoords is not None:
        texcoords[: len(simple.texcoords)] = simple.texcoords


def _part(array: np.ndarray, first: np.ndarray, count: np.ndarray, number: int) -> np.ndarray:
    """Return the part of an array that belongs to one mesh, as a view."""
    return array[first[number] : first[number] + count[number]]
