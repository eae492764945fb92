"""Remove triangles of scenery that no camera can see, for machines that render on a CPU.

Frames stay bit-identical, because a triangle that is beyond one plane of a camera's view frustum
covers none of its pixels. ManiSkill's floor is a grid of 20,000 triangles, 100 m wide, and a camera
in front of a table sees a few hundred of them. The time of a software driver is proportional to the
number of triangles: at 64 px the unseen ones take 2 ms of a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import Camera
from sapien import Component, Entity
from sapien.physx import PhysxRigidStaticComponent
from sapien.render import (
    RenderBodyComponent,
    RenderLightComponent,
    RenderShape,
    RenderShapeTriangleMesh,
)

from rlcore_env_maniskill.fast_render import MANY_TRIANGLES

Kind = TypeVar("Kind", bound=Component)


def leave_out_unseen(env: BaseEnv) -> None:
    """Remove from each static mesh of many triangles those that no camera can see.

    Nothing is removed if a camera is mounted on a body that may move, or if a light casts shadows,
    because an unseen triangle may cast one into the view.

    Args:
        env: the env at a start, with its cameras in their final poses.
    """
    cameras = list(env.scene.sensors.values())
    stand = all(isinstance(camera, Camera) and camera.entity is None for camera in cameras)
    if not stand or any(light.shadow for light in _of_kind(env, RenderLightComponent)):
        return
    views = [view for camera in cameras for view in _views(camera)]
    for entity, body in list(_scenery(env)):
        (shape,) = body.render_shapes
        visible = _seen(entity, shape, views)
        if visible is not None:
            component = RenderBodyComponent()
            component.attach(visible)
            entity.remove_component(body)
            entity.add_component(component)


def _views(sensor: Camera) -> Iterator[np.ndarray]:
    """Yield matrices `[4, 4]` from the world to clip space.

    A point is visible if -w < x < w, -w < y < w and 0 < z < w.
    """
    for camera in sensor.camera._render_cameras:
        yield camera.get_projection_matrix() @ np.linalg.inv(camera.get_model_matrix())


def _scenery(env: BaseEnv) -> Iterator[tuple[Entity, RenderBodyComponent]]:
    """Yield static bodies that consist of one mesh part of many triangles."""
    for body in _of_kind(env, RenderBodyComponent):
        if body.entity.find_component_by_type(PhysxRigidStaticComponent) is not None:
            parts = [part for shape in body.render_shapes for part in shape.parts]
            if len(parts) == 1 and len(parts[0].triangles) >= MANY_TRIANGLES:
                yield body.entity, body


def _of_kind(env: BaseEnv, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the first component of this class of each entity that has one."""
    for scene in env.scene.sub_scenes:
        for entity in scene.entities:
            component = entity.find_component_by_type(kind)
            if component is not None:
                yield component


def _seen(entity: Entity, shape: RenderShape, views: list[np.ndarray]) -> RenderShape | None:
    """Return the shape without the triangles that are outside all views.

    None if no triangle is visible, or if the shape can't be rebuilt exactly: it is not a mesh, or
    it has a normal map, for which SAPIEN computes its own tangents.
    """
    if not isinstance(shape, RenderShapeTriangleMesh) or shape.material.normal_texture is not None:
        return None
    (part,) = shape.parts
    local = entity.pose * shape.local_pose
    scaled = np.append(part.vertices * shape.scale, np.ones((len(part.vertices), 1)), axis=1)
    visible = np.zeros(len(part.triangles), dtype=bool)
    for view in views:
        x, y, z, w = (view @ local.to_transformation_matrix() @ scaled.T).astype(np.float64)
        beyond = np.stack([x > w, x < -w, y > w, y < -w, z > w, z < 0])  # [6, V]
        visible |= ~beyond[:, part.triangles].all(axis=-1).any(axis=0)
    used, numbers = np.unique(part.triangles[visible], return_inverse=True)
    if not len(used):
        return None
    mesh_shape = RenderShapeTriangleMesh(
        part.vertices[used],
        numbers.reshape(-1, 3).astype(np.uint32),
        part.get_vertex_normal()[used],
        part.get_vertex_uv()[used],
        part.material,
    )
    mesh_shape.scale = shape.scale
    mesh_shape.local_pose = shape.local_pose
    mesh_shape.front_face = shape.front_face
    return mesh_shape
