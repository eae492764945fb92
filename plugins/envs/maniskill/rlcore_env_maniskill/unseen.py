"""Scenery that no camera can see is not drawn, for machines that render on a CPU. Same bits.

ManiSkill's floor is a grid of 20,000 triangles, 100 m wide. A camera in front of a table sees a few
hundred of them, and a software driver spends its time on triangles: at 64 px the others take 2 ms
of a frame. A triangle beyond one side of what a camera sees covers none of its pixels.
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
    """Keep of each mesh of many triangles that never moves those that a camera may see. Nothing is
    left out where a camera moves along with something, or what it does not see may cast a shadow.

    Args:
        env: at a start, with its cameras where they stay.
    """
    cameras = list(env.scene.sensors.values())
    stand = all(isinstance(one, Camera) and one.entity is None for one in cameras)
    if not stand or any(light.shadow for light in _of_kind(env, RenderLightComponent)):
        return
    views = [view for one in cameras for view in _views(one)]
    for entity, body in list(_scenery(env)):
        (shape,) = body.render_shapes
        seen = _seen(entity, shape, views)
        if seen is not None:
            made = RenderBodyComponent()
            made.attach(seen)
            entity.remove_component(body)
            entity.add_component(made)


def _views(sensor: Camera) -> Iterator[np.ndarray]:
    """Matrices `[4, 4]` from the world to clip space: what is seen has -w < x, y < w, 0 < z < w."""
    for camera in sensor.camera._render_cameras:
        yield camera.get_projection_matrix() @ np.linalg.inv(camera.get_model_matrix())


def _scenery(env: BaseEnv) -> Iterator[tuple[Entity, RenderBodyComponent]]:
    """What never moves and is one mesh of one material and many triangles."""
    for body in _of_kind(env, RenderBodyComponent):
        if body.entity.find_component_by_type(PhysxRigidStaticComponent) is not None:
            parts = [part for shape in body.render_shapes for part in shape.parts]
            if len(parts) == 1 and len(parts[0].triangles) >= MANY_TRIANGLES:
                yield body.entity, body


def _of_kind(env: BaseEnv, kind: type[Kind]) -> Iterator[Kind]:
    """All components of a kind, one of an entity at most."""
    for scene in env.scene.sub_scenes:
        for entity in scene.entities:
            found = entity.find_component_by_type(kind)
            if found is not None:
                yield found


def _seen(entity: Entity, shape: RenderShape, views: list[np.ndarray]) -> RenderShape | None:
    """The shape without the triangles that no view has; None if it can't be made as it was: the
    tangents of a map of normals are SAPIEN's own."""
    if not isinstance(shape, RenderShapeTriangleMesh) or shape.material.normal_texture is not None:
        return None
    (part,) = shape.parts
    local = entity.pose * shape.local_pose
    scaled = np.append(part.vertices * shape.scale, np.ones((len(part.vertices), 1)), axis=1)
    kept = np.zeros(len(part.triangles), dtype=bool)
    for view in views:
        x, y, z, w = (view @ local.to_transformation_matrix() @ scaled.T).astype(np.float64)
        beyond = np.stack([x > w, x < -w, y > w, y < -w, z > w, z < 0])  # [6, V]
        kept |= ~beyond[:, part.triangles].all(axis=-1).any(axis=0)
    used, numbers = np.unique(part.triangles[kept], return_inverse=True)
    if not len(used):
        return None
    made = RenderShapeTriangleMesh(
        part.vertices[used],
        numbers.reshape(-1, 3).astype(np.uint32),
        part.get_vertex_normal()[used],
        part.get_vertex_uv()[used],
        part.material,
    )
    made.scale, made.local_pose, made.front_face = shape.scale, shape.local_pose, shape.front_face
    return made
