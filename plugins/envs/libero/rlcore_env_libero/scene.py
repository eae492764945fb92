"""Scene of one task in robosuite, compiled once and shared by several rows.

LIBERO compiles a model for each episode, which takes seconds. Here a task is compiled once per
process. Each row has its own simulation data, which is loaded into the scene before the row does
anything. One row is loaded at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from operator import attrgetter
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from rlcore_mujoco.model import Kept
from rlcore_mujoco.physics import step_again

from rlcore.contracts.rng import generator
from rlcore_env_libero.arm import Arm
from rlcore_env_libero.problem import Problem
from rlcore_env_libero.quiet import load_libero

# robosuite's time limit in steps; rlcore applies its limit outside the simulator.
NO_LIMIT = 10**9
# Arrays of a model that an episode may change: poses of fixtures, and the glow of a burner.
CHANGED = ("body_pos", "body_quat", "site_rgba")
# Arrays of the simulation data on which frames and the observed state depend.
OBSERVED = (
    "qpos",
    "xquat",
    *(f"{kind}_{pose}" for kind in ("geom", "site", "cam") for pose in ("xpos", "xmat")),
    "light_xpos",
    "light_xdir",
)


class RowState:
    """State of a row, which is stored here while another row is loaded into the scene.

    Args:
        scene: scene of the row's task.

    Attributes:
        data: simulation data of the row.
        seen: :data:`OBSERVED` arrays at the last observation. robosuite observes by a separate
            clock, one or two substeps before a step ends. This is reproduced, because published
            checkpoints were trained on such observations.
        seen_colours: colours of the sites at the last observation.
        model: arrays of the model that the row's episode changes.
        controller: controller of the arm, which stores its goal.
        gripper: current action of the gripper, which robosuite changes gradually.
        observables: robosuite's observables, which call the clocked observation.
    """

    def __init__(self, scene: Scene) -> None:
        from robosuite.utils.observables import Observable, sensor

        self.data = mujoco.MjData(scene.model)
        self.seen_colours = scene.model.site_rgba.copy()
        self.model = deepcopy(scene.built)
        self.controller: Any = scene.robot.controller
        self.gripper = scene.gripper_at_rest.copy()

        now = dict(zip(OBSERVED, attrgetter(*OBSERVED)(self.data), strict=True))
        self.seen = {name: array.copy() for name, array in now.items()}

        @sensor(modality="rlcore")
        def look(cache: object) -> np.ndarray:
            for name, array in self.seen.items():
                array[:] = now[name]
            self.seen_colours[:] = scene.model.site_rgba
            return np.zeros(1)

        rate = scene.env.control_freq
        self.observables = {"look": Observable("look", sensor=look, sampling_rate=rate)}


class Scene:
    """Compiled scene of a task.

    Args:
        libero: folder of LIBERO's code.
        file: BDDL file of the task.
        problem: scene in that file.

    Attributes:
        env: robosuite's env.
        model: its compiled model.
        robot: its arm.
        built: arrays of the model that episodes change, as they were compiled.
        gripper_at_rest: action of the gripper at the start of an episode.
    """

    def __init__(self, libero: Path, file: Path, problem: Problem) -> None:
        envs = load_libero(libero)
        from robosuite import load_controller_config  # imported only after its logging is off
        from robosuite.utils.errors import RandomizationError

        self._no_place = RandomizationError
        controller = load_controller_config(default_controller="OSC_POSE")
        with _numpy_generator_restored():
            self.env: Any = _saving_compiled_arrays(envs.TASK_MAPPING[problem.kind])(
                str(file),
                robots=["Panda"],
                controller_configs=controller,
                initialization_noise=None,
                use_camera_obs=False,
                has_offscreen_renderer=False,
                horizon=NO_LIMIT,
                ignore_done=True,
                hard_reset=False,
            )
        self.model: mujoco.MjModel = self.env.sim.model._model
        # nothing reads the force and the torque at the hand, which cost a pass over all bodies
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
        self.robot = self.env.robots[0]
        self._arm = Arm(self.model, self.robot)
        self._substeps = int(self.env.control_timestep / self.env.model_timestep)
        self.gripper_at_rest = np.zeros(self.robot.gripper.dof)
        self._loaded: RowState | None = None
        self.built: Kept = self.env.built
        self._shown = mujoco.MjData(self.model)

    def load(self, row: RowState) -> None:
        """Load the state of a row, and store the state of the previously loaded row."""
        if self._loaded is row:
            return
        if self._loaded is not None:
            self._loaded.controller = self.robot.controller
            self._loaded.gripper = self.robot.gripper.current_action
            self._loaded.model.take(self.model)
        self._loaded = row
        self.env.sim.data._data = row.data
        # a single observable, instead of all that robosuite computes
        self.env._observables = row.observables
        self.robot.controller = row.controller
        self.robot.gripper.current_action = row.gripper
        row.model.put(self.model)

    def reset(self, key: tuple[str, int]) -> None:
        """Reset the loaded row with LIBERO's own reset, as after compilation.

        LIBERO draws the positions of fixtures, which vary by up to a centimetre, from numpy's
        global generator. This method seeds that generator, and restores its state afterwards.

        Args:
            key: task and trial, which determine the seed.
        """
        with _numpy_generator_restored():
            np.random.seed(int(generator("libero start", *key).integers(2**32)))
            while not self._try_reset():
                pass
        self.env.sim.forward()
        self.env.visualize(vis_settings={name: False for name in self.env._visualizations})
        self.env._update_observables(force=True)

    def _try_reset(self) -> bool:
        """Reset once, and return whether robosuite found a place for all objects."""
        sim = self.env.sim
        self.built.put(self.model)
        self.robot.gripper.current_action = self.gripper_at_rest.copy()
        sim.reset()
        sim.forward()  # as after compilation
        sim.forward()  # as robosuite's renderer does; each pass changes the solver's warm start
        try:
            self.env._reset_internal()
        except self._no_place:
            return False
        return True

    def step(self, action: np.ndarray) -> bool:
        """Step the loaded row once.

        The result is bitwise that of robosuite's own `step`. Work without effect is skipped: two of
        three full forward passes in each of 25 substeps, and sensors and a record of forces and
        velocities that are never read.

        Args:
            action: `[7]`; the controller clips it to [-1, 1].

        Returns:
            whether the task is solved.
        """
        env = self.env
        data = env.sim.data._data
        for substep in range(self._substeps):
            mujoco.mj_forward(self.model, data)
            if substep == 0:
                self._arm.begin_step(data, action)
            self._arm.actuate()
            step_again(self.model, data)
            env._update_observables()
        env._post_process()
        return bool(env._check_success())

    def restore(self, state: np.ndarray) -> None:
        """Set the state of the loaded row.

        Args:
            state: float64 `[S]`, flattened: time, positions and velocities.
        """
        self.env.sim.set_state_from_flattened(state)
        self.env.sim.forward()
        self.env._check_success()
        self.env._post_process()
        self.env._update_observables(force=True)

    @contextmanager
    def shown(self, row: RowState) -> Iterator[mujoco.MjData]:
        """Yield data with a row's last observation, to render it.

        Within this context the model has the site colours of that observation.
        """
        for name, array in zip(OBSERVED, attrgetter(*OBSERVED)(self._shown), strict=True):
            array[:] = row.seen[name]
        colours = self.model.site_rgba.copy()
        self.model.site_rgba[:] = row.seen_colours
        yield self._shown
        self.model.site_rgba[:] = colours

    def close(self) -> None:
        """Free robosuite's env."""
        self.env.close()


@contextmanager
def _numpy_generator_restored() -> Iterator[None]:
    """Restore the state of numpy's global generator afterwards, because LIBERO draws from it."""
    before = np.random.get_state()
    try:
        yield
    finally:
        np.random.set_state(before)


def _saving_compiled_arrays(kind: type) -> type:
    """Derive a class of robosuite envs that saves the compiled model's arrays in `built`.

    The arrays must be saved within `_initialize_sim`, because robosuite's constructor resets the
    env, and thereby changes them, before it returns.
    """

    def compile_and_save(env: Any, xml_string: str | None = None) -> None:
        initialize(env, xml_string)
        env.built = Kept(env.sim.model._model, CHANGED)

    initialize = attrgetter("_initialize_sim")(kind)
    # keep the name: LIBERO compares it with the one in the task's file
    return type(kind.__name__, (kind,), {"_initialize_sim": compile_and_save})
