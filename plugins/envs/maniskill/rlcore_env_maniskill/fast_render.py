"""Robots drawn by their convex hulls, where a processor does the drawing.

A software driver spends its time on triangles: of 31 ms for a 64 px frame of a panda 28 went into
the 134,000 of the robot, and with the few thousand of its collision shapes a frame takes 3 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mani_skill.envs.sapien_env import BaseEnv
from sapien import Entity
from sapien.physx import PhysxArticulationLinkComponent, PhysxCollisionShapeConvexMesh
from sapien.render import (
    RenderBodyComponent,
    RenderMaterial,
    RenderShapeTriangleMesh,
)

# Links of fewer triangles are drawn as they are; the fingers of a panda have 624 each.
MANY_TRIANGLES = 2000


def draw_hulls(env: BaseEnv) -> None:
    """Give each link of many triangles that has convex hulls for contacts these to be drawn by, in
    the mean colour of what it showed. Again on the same scene it changes nothing."""
    for entity, link in _links(env):
        body = entity.find_component_by_type(RenderBodyComponent)
        hulls = link.collision_shapes
        if body is None or not hulls:
            continue
        parts = [part for shape in body.render_shapes for part in shape.parts]
        triangles = [len(part.triangles) for part in parts]
        if sum(triangles) < MANY_TRIANGLES:
            continue
        if not all(isinstance(hull, PhysxCollisionShapeConvexMesh) for hull in hulls):
            continue
        colour = np.average([part.material.base_color for part in parts], axis=0, weights=triangles)
        material = RenderMaterial(base_color=[float(value) for value in colour])
        drawn = RenderBodyComponent()
        for hull in hulls:
            drawn.attach(_shape(hull, material))
        entity.remove_component(body)
        entity.add_component(drawn)


def _links(env: BaseEnv) -> Iterator[tuple[Entity, PhysxArticulationLinkComponent]]:
    for link in env.agent.robot.get_links():
        for component in link._objs:
            yield component.entity, component


def _shape(
    hull: PhysxCollisionShapeConvexMesh, material: RenderMaterial
) -> RenderShapeTriangleMesh:
    """The hull with flat faces: each triangle has corners of its own, and one normal."""
    corners = (hull.vertices * hull.scale)[hull.triangles]  # [T, 3, 3]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
    count = 3 * len(corners)
    shape = RenderShapeTriangleMesh(
        corners.reshape(count, 3).astype(np.float32),
        np.arange(count, dtype=np.uint32).reshape(-1, 3),
        np.repeat(normals, 3, axis=0).astype(np.float32),
        np.zeros((count, 2), np.float32),
        material,
    )
    shape.local_pose = hull.local_pose
    return shape
