"""What a frame of RoboTwin's stand-in scene costs, at the size of its cameras and at next to no
pixels. Runs in the simulator's interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable

import sapien
from rlcore_env_robotwin.frames import seen
from rlcore_stand_ins.robotwin import scene as scenes
from rlcore_stand_ins.robotwin.tasks import start

CAMERAS = {1: (scenes.HEAD,), 3: (scenes.HEAD, *scenes.WRISTS)}
COUNT = 20


def milliseconds(call: Callable[[], object]) -> float:
    """CPU time of a call, the mean of some."""
    for _ in range(2):
        call()
    begin = time.process_time()
    for _ in range(COUNT):
        call()
    return (time.process_time() - begin) / COUNT * 1e3


def main() -> None:
    print("cameras  pixels   triangles  update  frame  resized: cropped  whole  step of physics"
          "   ms of CPU time")  # fmt: skip
    for size in ((8, 6), (128, 96), (scenes.WIDTH, scenes.HEIGHT)):
        scenes.WIDTH, scenes.HEIGHT = size
        for count, names in CAMERAS.items():
            scene = scenes.Scene(start("stack_blocks_two", 0, spread=1.0), names)
            scene.settle(50)
            frames = scene.frames().values()
            costs = [
                milliseconds(call)
                for call in (
                    scene._scene.update_render,
                    scene.frames,
                    lambda: [seen(frame, center_crop=True) for frame in frames],  # noqa: B023
                    lambda: [seen(frame, center_crop=False) for frame in frames],  # noqa: B023
                    lambda: scene.settle(1),  # noqa: B023
                )
            ]
            row = f"{count:7d}  {f'{size[0]}x{size[1]}':8s} {triangles(scene._scene):9,d}"
            row += "  {:6.2f} {:6.2f}  {:16.2f} {:6.2f} {:16.2f}".format(*costs)
            print(row, flush=True)


def triangles(scene: sapien.Scene) -> int:
    """Sent for a camera."""
    bodies = (
        entity.find_component_by_type(sapien.render.RenderBodyComponent)
        for entity in scene.entities
    )
    shapes = (shape for body in bodies if body is not None for shape in body.render_shapes)
    return sum(len(part.triangles) for shape in shapes for part in shape.parts)


if __name__ == "__main__":
    main()
