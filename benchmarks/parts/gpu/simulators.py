"""Measure frames drawn by the card against frames drawn in software: milliseconds, and how far the
images differ. A GL or Vulkan library is chosen when a simulator is imported, so each way is a
process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parts.gpu.row_process import Report

OFF = 16
"""Of 255: a pixel that differs by more in a colour counts as off."""
MESA = ("/usr/share/glvnd/egl_vendor.d/50_mesa.json", "/etc/glvnd/egl_vendor.d/50_mesa.json")
CARD, SOFTWARE = "card", "software"
FRAMES, PIXELS = 60, 224
FEW, SMALL = 3, 32
"""The same with `--quick`."""
TASKS = {
    "metaworld": "button-press-v3",
    "libero": "pick_up_the_alphabet_soup_and_place_it_in_the_basket",
}


def mujoco_frames(report: Report, *, quick: bool, env: str) -> None:
    """Report frames of MuJoCo through the card's EGL and through software."""
    _compare(report, env, {CARD: {"MUJOCO_GL": "egl"}, SOFTWARE: _software_gl()}, quick)


def sapien_frames(report: Report, *, quick: bool) -> None:
    """Report frames of SAPIEN through the card's Vulkan and through software."""
    _compare(report, "maniskill", {CARD: {}, SOFTWARE: _software_vulkan()}, quick)


def _software_gl() -> dict[str, str] | None:
    """Return the variables with which MuJoCo draws in software; None: nothing here does."""
    from rlcore_mujoco.gl import has_library

    for file in MESA:
        if Path(file).is_file():
            return {"MUJOCO_GL": "egl", "__EGL_VENDOR_LIBRARY_FILENAMES": file}
    return {"MUJOCO_GL": "osmesa"} if has_library("osmesa") else None


def _software_vulkan() -> dict[str, str] | None:
    """Return the variables with which SAPIEN draws in software; None: nothing here does."""
    from rlcore_sapien.vulkan import FOLDERS
    from rlcore_sapien.vulkan import SOFTWARE as WITHOUT_RAYS

    files = [file for folder in FOLDERS for file in sorted(folder.glob("lvp_icd*.json"))]
    return {"VK_ICD_FILENAMES": str(files[0]), **WITHOUT_RAYS} if files else None


def _compare(
    report: Report, env: str, ways: Mapping[str, dict[str, str] | None], quick: bool
) -> None:
    """Draw the same frames each way; report each, and then the difference."""
    count, pixels = (FEW, SMALL) if quick else (FRAMES, PIXELS)
    drawn: dict[str, np.ndarray] = {}
    asked = {SOFTWARE: ways[SOFTWARE]} if quick else ways
    with tempfile.TemporaryDirectory() as folder:
        for way, variables in asked.items():
            if variables is None:
                report(env=env, way=way, refused="this machine has no such driver")
                continue
            file = Path(folder) / f"{way}.npy"
            done = subprocess.run(
                [sys.executable, "-m", __name__, env, str(count), str(pixels), str(file)],
                env={**os.environ, "LP_NUM_THREADS": "1", **variables},
                capture_output=True,
                text=True,
                check=False,
            )
            if not file.is_file():
                said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
                report(env=env, way=way, refused=said[0])
                continue
            figures = json.loads(done.stdout.splitlines()[-1])
            report(env=env, way=way, **figures)
            drawn[way] = np.load(file)
    if len(drawn) == 2:
        apart = np.abs(drawn[CARD].astype(int) - drawn[SOFTWARE])
        report(
            env=env,
            mean_difference=apart.mean(),
            most_difference=apart.max(),
            share_off=(apart.max(axis=-1) > OFF).mean(),
        )


def draw(env: str, count: int, pixels: int, file: Path) -> dict[str, Any]:
    """Draw frames of an episode, write them as uint8 `[count, h, w, 3]`, and return the times."""
    taken, frames = [], []
    for begin, frame, end in _DRAWN[env](count, pixels):
        taken.append(end - begin)
        frames.append(frame)
    np.save(file, np.stack(frames))
    size = f"{frames[0].shape[0]}x{frames[0].shape[1]}"
    return {
        "ms_a_frame": 1e3 * float(np.median(taken[1:])),
        "size": size,
        "frames": len(frames),
        "renderer": _renderer(env),
    }


Drawn = Iterator[tuple[float, np.ndarray, float]]
"""When the drawing of each frame began, the frame, and when it ended."""


def _metaworld(count: int, pixels: int) -> Drawn:
    from rlcore_env_metaworld.pool import make_pool
    from rlcore_env_metaworld.settings import MetaWorldConfig

    pool = make_pool(MetaWorldConfig(tasks=[TASKS["metaworld"]], image_size=pixels))
    simulator = pool.take(0)
    model, data = simulator._env.model, simulator._env.data
    yield from _mujoco(simulator, lambda r, out: r.draw(model, data, out), model, count)


def _libero(count: int, pixels: int) -> Drawn:
    from rlcore_env_libero.settings import LiberoConfig
    from rlcore_stand_ins.libero.pool import make_pool

    config = LiberoConfig(
        suite="libero_object", tasks=[TASKS["libero"]], image_size=pixels, stand_ins=True
    )
    simulator = make_pool(config).take(0)
    scene, row = simulator.scene, simulator._row

    def show(renderer: Any, out: dict[str, np.ndarray]) -> None:
        with scene.shown(row) as data:
            renderer.draw(scene.model, data, out, row)

    yield from _mujoco(simulator, show, scene.model, count)


def _mujoco(simulator: Any, show: Any, model: Any, count: int) -> Drawn:
    """Frames of the expert's episode, from the first camera."""
    from rlcore_mujoco.render import Renderer

    from rlcore.contracts.specs import Episode

    view = simulator._renderers.view
    name = next(iter(view.cameras))
    renderer = Renderer(model, view)
    simulator.start(Episode(0, 0))
    for _ in range(count):
        simulator.step(simulator.expert_action(speed=1.0))
        out = {
            each: np.zeros((one.height, one.width, 3), np.uint8)
            for each, one in view.cameras.items()
        }
        begin = time.perf_counter()
        show(renderer, out)
        yield begin, out[name], time.perf_counter()


def _maniskill(count: int, pixels: int) -> Drawn:
    from rlcore_env_maniskill.raw import capture, make_raw, prepare_frames
    from rlcore_env_maniskill.settings import ManiSkillConfig

    config = ManiSkillConfig(tasks=["PushCube-v1"], image_size=pixels)
    raw = make_raw(config, "PushCube-v1")
    raw.reset(seed=0, options={})
    cameras = prepare_frames(raw, config)
    random = np.random.default_rng(0)
    for _ in range(count):
        raw.step(random.uniform(-1, 1, raw.single_action_space.shape).astype(np.float32))
        begin = time.perf_counter()
        shown = next(iter(capture(raw, cameras).values()))[0].cpu().numpy().copy()
        yield begin, shown, time.perf_counter()


_DRAWN = {"metaworld": _metaworld, "libero": _libero, "maniskill": _maniskill}


def _renderer(env: str) -> str:
    """Return what drew, by its own name."""
    if env == "maniskill":
        from rlcore_sapien.vulkan import driver, rendering_device

        return f"{driver()}, {rendering_device()}"
    from OpenGL import GL

    name = GL.glGetString(GL.GL_RENDERER)
    return name.decode() if name else "unknown"


def batched_simulation(report: Report, *, quick: bool, rows: int = 256) -> None:
    """Report ManiSkill's simulation alone on the card: ms of a reset, a step, a frame, by row."""
    from rlcore_env_maniskill.settings import ManiSkillConfig
    from rlcore_env_maniskill.spec import env_spec

    from parts.maniskill_alone import simulation_alone

    backend = "cpu" if quick else "gpu"
    config = ManiSkillConfig(
        tasks=["PushCube-v1"], sim_backend=backend, total_num_envs=1 if quick else rows
    )
    found = simulation_alone(config, env_spec(config), 2, 4 if quick else 8, 1 if quick else 3)
    report(
        sim_backend=backend,
        rows=found.rows,
        reset_ms_a_row=1e3 * found.reset,
        step_ms_a_row=1e3 * found.step,
        frame_ms_a_row=1e3 * found.frame,
    )


if __name__ == "__main__":
    _, which, number, side, place = sys.argv
    print(json.dumps(draw(which, int(number), int(side), Path(place))), flush=True)
    os._exit(0)  # software GL complains in its exit handlers
