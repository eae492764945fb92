"""Started scenes that the LIBERO tests share, and LIBERO's own beside them. Imports MuJoCo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from libero_cases import small_config
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import task_file
from rlcore_env_libero.quiet import assets_from, load_libero
from rlcore_env_libero.simulator import OPENING, LiberoSimulator
from rlcore_env_libero.suites import FOLDERS
from rlcore_simulation.cache import SimulatorCache
from rlcore_stand_ins.libero.pool import make_pool

from rlcore.contracts.rng import generator
from rlcore.contracts.specs import Episode

SIZE = 64
IMAGES = {"agentview": "agentview_image", "wrist": "robot0_eye_in_hand_image"}


def pool_of(task: str, **settings: object) -> SimulatorCache[LiberoSimulator]:
    """A pool with one task."""
    return make_pool(small_config(suite=FOLDERS[task], tasks=[task], **settings))


def started(task: str, trial: int = 0, **settings: object) -> LiberoSimulator:
    simulator = pool_of(task, **settings).take(0)
    simulator.start(Episode(0, trial))
    return simulator


def waited(simulator: LiberoSimulator, steps: int) -> bool:
    """Whether the task is solved after some steps without motion."""
    return [simulator.step(OPENING).success for _ in range(steps)][-1]


def places(simulator: LiberoSimulator) -> dict[str, np.ndarray]:
    """Where the bodies are that move freely, in metres `[3]`."""
    model, data = simulator.scene.model, simulator._row.data
    free = [j for j in range(model.njnt) if model.jnt_type[j] == 0]
    return {
        model.body(model.jnt_bodyid[j]).name: data.qpos[model.jnt_qposadr[j] :][:3].copy()
        for j in free
    }


def drawn(simulator: LiberoSimulator, size: int) -> dict[str, np.ndarray]:
    """Frames of what was last observed, by camera."""
    frames = {camera: np.zeros((size, size, 3), dtype=np.uint8) for camera in IMAGES}
    simulator.draw(frames)
    return frames


def require_liberos_own(
    task: str, trial: int, moves: np.ndarray, assets: Path, *, stand_ins: bool
) -> None:
    """A start and some moves are those of LIBERO's own `OffScreenRenderEnv` to the bit: positions,
    velocities, states, and frames with shadows and reflections. It is driven as its users do: seed,
    reset, init state, ten steps of waiting.

    Args:
        assets: the folder that it builds its scenes from.
        stand_ins: whether these are stand-ins, which ours writes anew.
    """
    pool = pool_of(task, stand_ins=stand_ins, image_size=SIZE, settle_steps=10, fast_render=False)
    simulator = pool.take(0)
    simulator.start(Episode(0, trial))
    before = simulator.states
    for move in moves:
        simulator.step(move)
    frames = drawn(simulator, SIZE)
    libero = libero_folder()
    envs = load_libero(libero)
    with assets_from(assets):
        theirs = envs.OffScreenRenderEnv(
            bddl_file_name=str(task_file(libero, task)), camera_heights=SIZE, camera_widths=SIZE
        )
        # LIBERO draws how far drawers are open once for each model that it has ever built
        theirs.env.object_property_initializers.clear()
        np.random.seed(int(generator("libero start", task, trial).integers(2**32)))
        theirs.reset()
    theirs.set_init_state(simulator._init_states[trial])
    for move in [OPENING] * 10 + list(moves):
        seen, _, solved, _ = theirs.step(move)
    data = theirs.sim.data
    np.testing.assert_array_equal(data.qpos, simulator._row.data.qpos)
    np.testing.assert_array_equal(data.qvel, simulator._row.data.qvel)
    assert not solved and not np.array_equal(simulator.states, before)
    state = np.concatenate([seen["robot0_eef_pos"], seen["robot0_gripper_qpos"]])
    np.testing.assert_array_equal(simulator.states[[0, 1, 2, 6, 7]], state.astype(np.float32))
    from robosuite.utils.transform_utils import quat2axisangle  # now that it is quiet

    turn = quat2axisangle(seen["robot0_eef_quat"].copy())
    np.testing.assert_allclose(simulator.states[3:6], turn, atol=1e-6)
    for camera, name in IMAGES.items():  # frames as openpi and OpenVLA-OFT turn them
        np.testing.assert_array_equal(frames[camera], seen[name][::-1, ::-1])
        assert frames[camera].std() > 10
    pool.close()
    theirs.close()
