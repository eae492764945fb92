"""Render robots by their collision shapes, for machines that render on a CPU.

The time of a software driver is proportional to the number of triangles. A 64 px frame with a panda
takes 31 ms, 28 ms of them for the robot's 134,000 triangles; with the few thousand triangles of its
collision shapes it takes 3 ms. The hand camera of panda_wristcam adds 425,000 triangles.
"""

from __future__ import annotations

import numpy as np
from mani_skill.envs.sapien_env import BaseEnv
from sapien.physx import PhysxCollisionShape, PhysxCollisionShapeBox, PhysxCollisionShapeConvexMesh
from sapien.render import (
    RenderBodyComponent,
    RenderMaterial,
    RenderShape,
    RenderShapeBox,
    RenderShapeTriangleMesh,
)

# Links with fewer triangles are rendered as they are; the fingers of a panda have 624 each.
MANY_TRIANGLES = 2000


def draw_contact_shapes(env: BaseEnv) -> None:
    """Render each link of many triangles by its collision boxes and convex hulls.

    They get the link's mean colour. Links without collision shapes, or with shapes of other kinds,
    are not changed. A second call on the same scene changes nothing.
    """
    for link in (member for batch in env.agent.robot.get_links() for member in batch._objs):
        entity = link.entity
        body = entity.find_component_by_type(RenderBodyComponent)
        if body is None or not link.collision_shapes:
            continue
        parts = [part for shape in body.render_shapes for part in shape.parts]
        triangles = [len(part.triangles) for part in parts]
        if sum(triangles) < MANY_TRIANGLES:
            continue
        colour = np.average([part.material.base_color for part in parts], axis=0, weights=triangles)
        material = RenderMaterial(base_color=[float(value) for value in colour])
        shapes = [_shape(shape, material) for shape in link.collision_shapes]
        if all(shapes):
            entity.remove_component(body)
            simple = RenderBodyComponent()
            for shape in shapes:
                simple.attach(shape)
            entity.add_component(simple)


def _shape(contact: PhysxCollisionShape, material: RenderMaterial) -> RenderShape | None:
    """Return a visual copy of a collision shape; None if it is neither a box nor a convex hull."""
    shape: RenderShape
    if isinstance(contact, PhysxCollisionShapeConvexMesh):
        shape = _hull(contact, material)
    elif isinstance(contact, PhysxCollisionShapeBox):
        shape = RenderShapeBox(contact.half_size, material)
    else:
        return None
    shape.local_pose = contact.local_pose
    return shape


def _hull(contact: PhysxCollisionShapeConvexMesh, material: RenderMaterial) -> RenderShape:
    """Return a convex hull as a mesh with flat shading: triangles share no vertices."""
    corners = (contact.vertices * contact.scale)[contact.triangles]  # [T, 3, 3]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
    count = 3 * len(corners)
    return RenderShapeTriangleMesh(
        corners.reshape(count, 3).astype(np.float32),
        np.arange(count, dtype=np.uint32).reshape(-1, 3),
        np.repeat(normals, 3, axis=0).astype(np.float32),
        np.zeros((count, 2), np.float32),
        material,
    )
