"""Render simplified meshes on machines that render on a CPU: `render_detail=pixel`.

A body of many triangles is replaced by a mesh that is simplified to the width of a pixel at the
body's nearest distance to a camera. The exact bodies remain in the scene, hidden, and are rendered
for films.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import Camera
from mani_skill.utils.structs import Actor, Link
from rlcore_simulation.kept_meshes import kept, shared_width
from rlcore_simulation.simplify import Mesh
from sapien import Entity
from sapien.render import (
    RenderBodyComponent,
    RenderShape,
    RenderShapeTriangleMesh,
    RenderShapeTriangleMeshPart,
)

from rlcore_env_maniskill.fast_render import MANY_TRIANGLES

# Factor on the initial distances to a camera: bodies may come this much nearer in an episode.
NEARER = 0.5
NAME = "simpler"
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Simpler:
    """The simplified bodies of one task's scenes.

    Distances to cameras are measured in the scene as it was built, not at each start, so that all
    starts are rendered with the same meshes.

    Args:
        env: the env as it was built.
        cameras: names of the sensors that are rendered.
    """

    def __init__(self, env: BaseEnv, cameras: Iterable[str]) -> None:
        self._widths = _pixel_widths(env, [env.scene.sensors[name] for name in cameras])
        self._made: dict[tuple[str, int, float], Arrays] = {}
        self._pairs: list[tuple[RenderBodyComponent, RenderBodyComponent]] = []

    def show(self, env: BaseEnv) -> None:
        """Hide the exact bodies of the scene and render simplified ones instead.

        Call it again after each reset that rebuilds the scene; other calls have no effect.
        """
        hidden = [entity for thing in env._hidden_objects for entity in _entities(thing)]
        fresh = [
            (body, self._simpler(body))
            for entity, body in _bodies(env)
            if body.visibility and entity not in hidden
        ]
        if fresh:
            self._pairs = fresh
        for exact, simpler in fresh:
            exact.entity.add_component(simpler)
            exact.visibility = 0.0

    @contextmanager
    def exact(self) -> Iterator[None]:
        """Render the exact bodies within this context, for a film."""
        self._choose(exact=1.0)
        try:
            yield
        finally:
            self._choose(exact=0.0)

    def _choose(self, *, exact: float) -> None:
        for body, simpler in self._pairs:
            body.visibility = exact
            simpler.visibility = 1.0 - exact

    def _simpler(self, body: RenderBodyComponent) -> RenderBodyComponent:
        width = self._widths.get(body.entity.name, min(self._widths.values(), default=0.0))
        component = RenderBodyComponent()
        component.name = NAME
        for shape in body.render_shapes:
            for simple in self._shapes(shape, width):
                component.attach(simple)
        return component

    def _shapes(self, shape: RenderShape, width: float) -> Iterator[RenderShape]:
        """Yield simplified shapes, one for each material.

        A shape with a normal map is copied as it is, because it needs SAPIEN's own tangents.
        """
        maps = any(part.material.normal_texture is not None for part in shape.parts)
        if not isinstance(shape, RenderShapeTriangleMesh) or maps or not width:
            yield shape.clone()
            return
        for number, part in enumerate(shape.parts):
            key = (shape.filename, number, shared_width(width / float(shape.scale.max())))
            arrays = self._made.get(key) if shape.filename else None
            if arrays is None:
                arrays = self._made[key] = _arrays(_mesh(part), key[-1])
            points, triangles, normals, texcoords = arrays
            mesh_shape = RenderShapeTriangleMesh(
                points, triangles, normals, texcoords, part.material
            )
            mesh_shape.scale = shape.scale
            mesh_shape.local_pose = shape.local_pose
            mesh_shape.front_face = shape.front_face
            yield mesh_shape


def _pixel_widths(env: BaseEnv, sensors: list[Camera]) -> dict[str, float]:
    """Return the width of a pixel, m, at an entity's nearest distance to a camera, by entity name.

    A camera on a robot moves. It is assumed to see only those links of the robot that are in its
    view now, and to come as near to all bodies as it now is to the nearest one.
    """
    widths: dict[str, float] = {}
    for sensor in sensors:
        own = [] if sensor.entity is None else list(_entities(sensor.entity))
        for camera in sensor.camera._render_cameras:
            eye = camera.get_model_matrix()[:3, 3]
            view = camera.get_projection_matrix() @ np.linalg.inv(camera.get_model_matrix())
            robot = [] if sensor.entity is None else list(_robot(env))
            visible = {
                entity.name: _distance(eye, body)
                for entity, body in _bodies(env)
                if entity not in own and (entity not in robot or _in_view(view, body))
            }
            if robot and visible:
                visible = dict.fromkeys(visible, min(visible.values()))
            height = sensor.config.height * abs(camera.get_projection_matrix()[1, 1])
            for name, distance in visible.items():
                width = 2 * max(NEARER * distance, camera.near) / height
                widths[name] = min(width, widths.get(name, width))
    return widths


def _entities(thing: Actor | Link) -> list[Entity]:
    return [item if isinstance(item, Entity) else item.entity for item in thing._objs]


def _robot(env: BaseEnv) -> Iterator[Entity]:
    for link in env.agent.robot.get_links():
        yield from _entities(link)


def _in_view(view: np.ndarray, body: RenderBodyComponent) -> bool:
    """Return whether a body's bounding box may be visible, given the matrix to clip space `[4, 4]`.

    It is not if all its corners are beyond the same plane of the view frustum.
    """
    box = body.compute_global_aabb_tight()
    corners = np.array([*product(*box.T, [1.0])])
    x, y, z, w = view @ corners.T
    beyond = np.stack([x > w, x < -w, y > w, y < -w, z > w, z < 0])
    return not beyond.all(axis=1).any()


def _distance(eye: np.ndarray, body: RenderBodyComponent) -> float:
    """Return the distance from `eye` to the nearest point of a body's bounding box, m."""
    low, high = body.compute_global_aabb_tight()
    return float(np.linalg.norm(np.maximum(np.maximum(low - eye, eye - high), 0.0)))


def _bodies(env: BaseEnv) -> Iterator[tuple[Entity, RenderBodyComponent]]:
    """Yield entities with their first render body, if it has many triangles.

    An entity that also has a simplified body is yielded with its exact one.
    """
    for scene in env.scene.sub_scenes:
        for entity in scene.entities:
            body = entity.find_component_by_type(RenderBodyComponent)
            if body is not None:
                parts = [part for shape in body.render_shapes for part in shape.parts]
                if sum(len(part.triangles) for part in parts) >= MANY_TRIANGLES:
                    yield entity, body


def _mesh(part: RenderShapeTriangleMeshPart) -> Mesh:
    corners = part.triangles.astype(np.int32)
    textured = part.material.base_color_texture is not None
    return Mesh(
        part.vertices,
        part.get_vertex_normal(),
        part.get_vertex_uv() if textured else None,
        corners,
        corners,
        corners if textured else np.zeros_like(corners),
    )


def _arrays(mesh: Mesh, pixel: float) -> Arrays:
    """Simplify a mesh to a pixel's width, m; return points, triangles, normals and texcoords.

    Vertices are split so that each has one normal and one texture coordinate, as SAPIEN needs it.
    """
    simple = kept(mesh, pixel, np.ones(len(mesh.faces)))
    corners = np.stack([simple.faces, simple.face_normals, simple.face_texcoords], axis=-1)
    used, numbers = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    texcoords = np.zeros((1, 2)) if simple.texcoords is None else simple.texcoords
    return (
        simple.points[used[:, 0]].astype(np.float32),
        numbers.reshape(-1, 3).astype(np.uint32),
        simple.normals[used[:, 1]].astype(np.float32),
        texcoords[used[:, 2]].astype(np.float32),
    )
