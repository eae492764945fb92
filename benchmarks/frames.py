"""What a frame costs and shows, with exact geometry and with as much as its pixels can show.

    python benchmarks/frames.py [--env metaworld|libero] [--json PATH] [--picture PATH]

See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

TINY = 8  # pixels: what a frame costs that shows next to nothing
FAR = 16  # of 255: a pixel that is more off than this counts
EVERY = 5  # steps of an expert's episode between frames


@dataclass(frozen=True)
class Row:
    """One task, camera and size.

    Times are milliseconds of CPU of a frame, medians over the expert's episode: at starts an arm
    stands where it did at the one before, so `pixel` would not draw it again.

    Attributes:
        exact_triangles, triangles: of the meshes that are uploaded to be drawn.
        tiny: an exact frame of :data:`TINY` pixels.
        exact, pixel: a frame with either detail; the two took turns.
        difference: mean absolute one, of 255.
        off: percentage of pixels off by more than :data:`FAR`.
        frames: that were compared.
    """

    task: str
    camera: str
    size: int
    exact_triangles: int
    triangles: int
    tiny: float
    exact: float
    pixel: float
    difference: float
    off: float
    frames: int

    def line(self) -> str:
        return (
            f"| {self.task} | {self.camera} | {self.size} | {self.exact_triangles} "
            f"| {self.triangles} | {self.tiny:.2f} | {self.exact:.2f} | {self.pixel:.2f} "
            f"| {self.pixel / self.exact:.2f} | {self.difference:.2f} | {self.off:.2f}% |"
        )


HEAD = (
    "| task | camera | px | triangles | with pixel | 8 px, ms | exact, ms | pixel, ms | ratio "
    "| difference | off |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Measure each task, print the table, and write the picture."""
    options = _arguments()
    os.environ.setdefault("LP_NUM_THREADS", "1")
    from rlcore_mujoco.gl import choose_gl

    os.environ["MUJOCO_GL"] = choose_gl() or ""
    rows, picture = [], []
    print(HEAD, flush=True)
    for task, simulator, view in _simulators(options):
        for row, image in measure(task, simulator, view, options):
            rows.append(row)
            picture.append(image)
            print(row.line(), flush=True)
    for camera in dict.fromkeys(row.camera for row in rows):
        these = [row for row in rows if row.camera == camera]
        ratio = sum(row.pixel for row in these) / sum(row.exact for row in these)
        print(
            f"{camera}: ratio {ratio:.2f}, difference {mean(r.difference for r in these):.2f}, "
            f"off {mean(r.off for r in these):.2f}%"
        )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    if options.picture is not None:
        from PIL import Image

        Image.fromarray(np.vstack(picture)).save(options.picture, optimize=True)
    sys.stdout.flush()
    os._exit(0)  # software GL complains in its exit handlers


def measure(
    task: str, simulator: Any, view: Any, options: argparse.Namespace
) -> Iterator[tuple[Row, np.ndarray]]:
    """The rows of a task, one for each camera, each with its picture."""
    from rlcore_mujoco.detail import drawn_model
    from rlcore_mujoco.render import Renderer
    from rlcore_simulation.detail import EXACT, PIXEL

    model = simulator.model
    for name, camera in view.cameras.items():
        exact = replace(view, cameras={name: camera}, detail=EXACT)
        pixel = replace(exact, detail=PIXEL)
        tiny = replace(exact, cameras={name: replace(camera, height=TINY, width=TINY)})
        renderers = [Renderer(model, each) for each in (exact, pixel, tiny)]
        times: list[list[float]] = [[], [], []]
        seen: list[list[np.ndarray]] = [[], [], []]
        for _ in states(simulator, options.starts, options.steps):
            for number, each in enumerate((exact, pixel, tiny)):
                size = each.cameras[name]
                out = np.zeros((size.height, size.width, 3), np.uint8)
                begin = time.process_time()
                simulator.draw_with(renderers[number], {name: out})
                times[number].append(1000 * (time.process_time() - begin))
                seen[number].append(out)
        for renderer in renderers:
            renderer.close()
        apart = np.abs(np.stack(seen[0]).astype(int) - np.stack(seen[1]))
        row = Row(
            task=task,
            camera=name,
            size=camera.height,
            exact_triangles=triangles(model, model, view),
            triangles=triangles(model, drawn_model(model, pixel), view),
            tiny=median(times[2][options.starts :]),
            exact=median(times[0][options.starts :]),
            pixel=median(times[1][options.starts :]),
            difference=float(apart.mean()),
            off=float(100 * (apart.max(axis=-1) > FAR).mean()),
            frames=len(apart),
        )
        gain = np.clip(4 * apart[-1], 0, 255).astype(np.uint8)
        yield row, np.hstack([seen[0][-1], seen[1][-1], gain])


def triangles(model: Any, uploaded: Any, view: Any) -> int:
    """Faces of all meshes that are drawn."""
    from rlcore_mujoco.detail import drawn_meshes

    return int(uploaded.mesh_facenum[model.geom_dataid[drawn_meshes(model, view)]].sum())


def states(simulator: Any, starts: int, steps: int) -> Iterator[None]:
    """Bring a simulator to each of its starts, and then through an expert's episode."""
    from rlcore.contracts.specs import Episode

    for trial in range(starts):
        simulator.start(Episode(0, trial))
        yield
    for step in range(steps):
        solved = simulator.step(simulator.expert_action(speed=1.0)).success
        if step % EVERY == 0 or solved:
            yield
        if solved:
            return


class _MetaWorld:
    def __init__(self, simulator: Any) -> None:
        self.start, self.step = simulator.start, simulator.step
        self.expert_action = simulator.expert_action
        self.model, self.data = simulator._env.model, simulator._env.data

    def draw_with(self, renderer: Any, out: Mapping[str, np.ndarray]) -> None:
        renderer.draw(self.model, self.data, out)


class _Libero:
    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator
        self.start, self.step = simulator.start, simulator.step
        self.expert_action = simulator.expert_action
        self.model = simulator.scene.model

    def draw_with(self, renderer: Any, out: Mapping[str, np.ndarray]) -> None:
        scene, row = self._simulator.scene, self._simulator._row
        with scene.shown(row) as data:
            renderer.draw(self.model, data, out, row)


def _simulators(options: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """Tasks with a simulator and the view of each; one at a time."""
    if options.env == "metaworld":
        from rlcore_env_metaworld.pool import make_pool
        from rlcore_env_metaworld.settings import MetaWorldConfig

        for task in options.tasks or METAWORLD:
            config = MetaWorldConfig(
                tasks=[task], image_size=options.size or 64, fast_render=not options.slow
            )
            pool = make_pool(config)
            simulator = pool.take(0)
            yield task, _MetaWorld(simulator), simulator._renderers.view
            pool.close()
        return
    from rlcore_env_libero.settings import LiberoConfig
    from rlcore_env_libero.suites import SUITES
    from rlcore_stand_ins.libero.pool import make_pool as libero_pool

    for task in options.tasks or islice(SUITES["libero_object"], 0, None, 4):
        libero = LiberoConfig(
            suite="libero_130",
            tasks=[task],
            image_size=options.size or 128,
            fast_render=not options.slow,
            stand_ins=options.stand_ins,
        )
        scenes = libero_pool(libero)
        played = scenes.take(0)
        yield task, _Libero(played), played._renderers.view
        scenes.close()


METAWORLD: Sequence[str] = (
    "button-press-v3", "door-open-v3", "drawer-open-v3", "pick-place-v3", "coffee-button-v3",
)  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tasks", nargs="*", help="tasks by name; some of each env by default")
    parser.add_argument("--env", choices=("metaworld", "libero"), default="metaworld")
    parser.add_argument("--size", type=int, help="of frames, in pixels (64; LIBERO 128)")
    parser.add_argument("--slow", action="store_true", help="shadows and antialiasing as they are")
    parser.add_argument("--stand-ins", action="store_true", help="LIBERO without its assets")
    parser.add_argument("--starts", type=int, default=20, help="starts of each task")
    parser.add_argument("--steps", type=int, default=200, help="most steps of the expert's episode")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--picture", type=Path, help="exact, pixel, and four times the difference")
    return parser.parse_args()


if __name__ == "__main__":
    main()
