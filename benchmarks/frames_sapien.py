"""What a frame costs in SAPIEN without a graphics card, and whether geometry or pixels cost it.

    python benchmarks/frames_sapien.py [--scenes NAME ...] [--json PATH] [--quick]
    python benchmarks/frames_sapien.py --robotwin PYTHON

PYTHON is an interpreter that `rlcore venv create robotwin` made. See docs/benchmarks.md for what
each figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rlcore_sapien.vulkan import driver, environment

if TYPE_CHECKING:  # SAPIEN reads its variables at import
    import sapien
    from mani_skill.envs.sapien_env import BaseEnv

LEAST = 8  # px: next to no pixels
OFF = 16  # of 255
MESH = 200  # triangles from which a body counts as a mesh
ROBOTWIN = Path(__file__).parent / "parts" / "robotwin_frames.py"


WAYS: dict[str, dict[str, Any]] = {
    "exact": {},
    "pixel": {"render_detail": "pixel"},
    "fast": {"fast_render": True},
}


@dataclass(frozen=True)
class Scene:
    """A task of ManiSkill, and the cameras that are drawn."""

    name: str
    task: str
    settings: dict[str, Any] = field(hash=False)
    sizes: tuple[int, ...] = (LEAST, 64, 128, 224)


SCENES = (
    Scene("PushCube", "PushCube-v1", {}),
    Scene(
        "PickCube-hand",
        "PickCube-v1",
        {"robot": "panda_wristcam", "cameras": ["third_person", "hand_camera"]},
    ),
    Scene("put-on-plate", "PutOnPlateInScene25Main-v3", {"stand_ins": True}),
)


@dataclass(frozen=True)
class Cost:
    """Of a frame of all cameras, in ms of CPU time.

    Attributes:
        scene, size, drawn: which.
        triangles: sent for each camera.
        whole: the frame as an array.
        update: of it, poses handed to the renderer.
        picture: of it, drawing.
        mean, off: of its frames over an episode, against the exact ones: mean difference of 255,
            and share of pixels that differ by more than 16 in a colour.
        without: the same frame without meshes.
        step: an env step, beside it.
    """

    scene: str
    size: int
    drawn: str
    triangles: int
    whole: float
    update: float
    picture: float
    mean: float
    off: float
    without: float
    step: float


def main() -> None:
    from parts.machine import Machine

    words = parsed()
    if words.robotwin is not None:
        robotwin(words.robotwin)
        return
    for name, value in (environment() | {"LP_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}).items():
        os.environ.setdefault(name, value)
    machine = Machine.this(len(os.sched_getaffinity(0)))
    print(*machine.lines(), f"Vulkan driver {driver()}", sep="\n")
    heads = ("triangles", "frame", "update", "picture", "mean", ">16, %", "no mesh", "step")
    print(
        "ms of CPU time",
        f"{'scene':24s}  px drawn " + "".join(f"{h:>10s}" for h in heads),
        sep="\n",
    )
    found = []
    for cost in costs(2 if words.quick else 15, words.scenes, quick=words.quick):
        found.append(cost)
        row = f"{cost.scene:24s}{cost.size:4d} {cost.drawn:6s}{cost.triangles:10,d}"
        figures = (cost.whole, cost.update, cost.picture, cost.mean, 100 * cost.off, cost.without)
        print(row + "".join(f"{each:10.2f}" for each in (*figures, cost.step)), flush=True)
    if words.json is not None:
        rows = [asdict(cost) for cost in found]
        words.json.write_text(json.dumps({"machine": asdict(machine), "rows": rows}, indent=1))


def costs(count: int, names: list[str], *, quick: bool) -> Iterator[Cost]:
    """Each scene at each size, drawn in each way."""
    exact: dict[tuple[Scene, int], list[np.ndarray]] = {}
    for scene in SCENES[:1] if quick else [one for one in SCENES if one.name in names]:
        for size in scene.sizes[:1] if quick else scene.sizes:
            for drawn, settings in WAYS.items():
                yield cost_of(scene, size, drawn, settings, count, exact)


def cost_of(
    scene: Scene,
    size: int,
    drawn: str,
    settings: dict[str, Any],
    count: int,
    exact: dict[tuple[Scene, int], list[np.ndarray]],
) -> Cost:
    """One row; `exact` keeps the frames of the first one, to compare with."""
    import torch
    from rlcore_env_maniskill.raw import capture, prepare_frames
    from rlcore_env_maniskill.settings import ManiSkillConfig
    from rlcore_env_maniskill.simulator import Simulator

    from rlcore.contracts.specs import Episode

    torch.set_num_threads(1)
    config = ManiSkillConfig(tasks=[scene.task], image_size=size, **scene.settings, **settings)
    simulator = Simulator(config, scene.task)
    simulator.start(Episode(0, 0))
    env = simulator.env
    names = prepare_frames(env, config)

    def update() -> None:
        env.scene.update_render(update_sensors=True, update_human_render_cameras=False)

    def picture() -> None:
        env.capture_sensor_data()
        for sensor in env.scene.sensors.values():
            sensor.camera.get_picture(["Color"])  # waits until it is drawn

    still = np.zeros(env.single_action_space.shape, dtype=np.float32)
    draw = np.random.default_rng(0)
    frames = []
    for _ in range(count):
        simulator.step(draw.uniform(-1, 1, still.shape).astype(np.float32))
        frames += [shown[0].numpy().copy() for shown in capture(env, names).values()]
    apart = np.abs(np.subtract(frames, exact.setdefault((scene, size), frames), dtype=np.int16))
    triangles = sum(triangles_of(body) for _, body in bodies(env) if body.visibility)
    whole, handed, drawing, step = (
        milliseconds(call, count)
        for call in (lambda: capture(env, names), update, picture, lambda: simulator.step(still))
    )
    for entity, body in list(bodies(env)):
        if triangles_of(body) >= MESH:
            entity.remove_component(body)
    without = milliseconds(lambda: capture(env, names), count)
    simulator.close()
    return Cost(
        scene.name, size, drawn, triangles, whole, handed, drawing,
        float(apart.mean()), float((apart.max(axis=-1) > OFF).mean()), without, step,
    )  # fmt: skip


def bodies(env: BaseEnv) -> Iterator[tuple[sapien.Entity, sapien.render.RenderBodyComponent]]:
    """All that may be drawn."""
    from sapien.render import RenderBodyComponent

    for scene in env.scene.sub_scenes:
        for entity in scene.entities:
            for component in entity.components:
                if isinstance(component, RenderBodyComponent):
                    yield entity, component


def triangles_of(body: sapien.render.RenderBodyComponent) -> int:
    return sum(len(part.triangles) for shape in body.render_shapes for part in shape.parts)


def milliseconds(call: Callable[[], object], count: int) -> float:
    """CPU time of a call, the mean of some; the renderer's thread counts too."""
    for _ in range(2):
        call()
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count * 1e3


def robotwin(python: str) -> None:
    """The stand-in scene of RoboTwin, in its interpreter."""
    from rlcore_simulation.module_links import link_modules

    variables = environment() | {"LP_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        link_modules(Path(folder), ["rlcore_env_robotwin"])
        variables = {**os.environ, **variables, "PYTHONPATH": folder}
        done = subprocess.run([python, str(ROBOTWIN)], env=variables, check=False)
    sys.exit(done.returncode)


def parsed() -> argparse.Namespace:
    from rlcore_simulation.interpreters import executable_of

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--robotwin", type=executable_of, metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    names = [scene.name for scene in SCENES]
    parser.add_argument("--scenes", nargs="+", choices=names, default=names)
    parser.add_argument("--quick", action="store_true", help="only shows that it runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
