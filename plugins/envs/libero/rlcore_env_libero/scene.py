"""One task's scene in robosuite, compiled once, and the rows that take turns in it.

LIBERO compiles a model for every episode, which takes seconds. Here a task is compiled once for a
process. Each row has simulation data of its own, and takes its place in the scene before it does
anything: one row at a time.
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
from rlcore_mujoco.physics import forward_again, step_again

from rlcore.contracts.rng import generator
from rlcore_env_libero.problem import Problem
from rlcore_env_libero.quiet import load_libero

# robosuite ends an episode after this many steps; ours is applied outside.
NO_LIMIT = 10**9
# What an episode may change in a model: where fixtures stand, whether a burner glows.
CHANGED = ("body_pos", "body_quat", "site_rgba")
# What frames and the observed state are made of.
OBSERVED = (
    "qpos",
    "xquat",
    *(f"{kind}_{what}" for kind in ("geom", "site", "cam") for what in ("xpos", "xmat")),
    "light_xpos",
    "light_xdir",
)


class RowState:
    """The state of a row, stored while another row is in the scene.

    Attributes:
        data: of the simulation.
        seen: the :data:`OBSERVED` arrays, as they were last observed. robosuite observes by a clock
            of its own, a substep or two before a step ends, and checkpoints have learned from
            that.
        seen_colours: of sites, at that moment.
        model: what this row has changed in it.
        controller: of the arm, which remembers its goal.
        gripper: what the gripper is told, which it changes step by step.
        observables: robosuite's clock.
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
    """A compiled task.

    Args:
        libero: the folder of LIBERO's code.
        file: of the task.
        problem: what it says.

    Attributes:
        env: robosuite's.
        model: the compiled one.
        robot: the arm in it.
        built: what episodes change in it, as it was compiled.
        gripper_at_rest: what the gripper is told at first.
    """

    def __init__(self, libero: Path, file: Path, problem: Problem) -> None:
        envs = load_libero(libero)
        from robosuite import load_controller_config  # now that it is quiet
        from robosuite.utils.errors import RandomizationError

        self._no_place = RandomizationError
        controller = load_controller_config(default_controller="OSC_POSE")
        with _leaving_numpys_generator():
            self.env: Any = _keeping(envs.TASK_MAPPING[problem.kind])(
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
        self.robot = self.env.robots[0]
        self.gripper_at_rest = np.zeros(self.robot.gripper.dof)
        self._loaded: RowState | None = None
        self.built: Kept = self.env.built
        self._shown = mujoco.MjData(self.model)

    def load(self, row: RowState) -> None:
        """Load the state of a row, and store that of the one before it."""
        if self._loaded is row:
            return
        if self._loaded is not None:
            self._loaded.controller = self.robot.controller
            self._loaded.gripper = self.robot.gripper.current_action
            self._loaded.model.take(self.model)
        self._loaded = row
        self.env.sim.data._data = row.data
        self.env._observables = row.observables  # one, in place of all that robosuite gathers
        self.robot.controller = row.controller
        self.robot.gripper.current_action = row.gripper
        row.model.put(self.model)

    def reset(self, key: tuple[str, int]) -> None:
        """LIBERO's own reset of the row in the scene, as it is after a model was compiled.

        It draws where fixtures stand, up to a centimetre apart, from numpy's global generator;
        here that is keyed.

        Args:
            key: task and trial.
        """
        with _leaving_numpys_generator():
            np.random.seed(int(generator("libero start", *key).integers(2**32)))
            while not self._try_reset():
                pass
        self.env.sim.forward()
        self.env.visualize(vis_settings={name: False for name in self.env._visualizations})
        self.env._update_observables(force=True)

    def _try_reset(self) -> bool:
        """Whether there was a place for everything."""
        sim = self.env.sim
        self.built.put(self.model)
        self.robot.gripper.current_action = self.gripper_at_rest.copy()
        sim.reset()
        sim.forward()  # as after compilation
        sim.forward()  # as robosuite's renderer does; each one moves the solver's first guess
        try:
            self.env._reset_internal()
        except self._no_place:
            return False
        return True

    def step(self, action: np.ndarray) -> bool:
        """One step of the row in the scene, and whether the task is solved.

        It has the bits of robosuite's own, without what has no effect: two of three full forward
        passes in each of 25 small steps, and a record of forces and velocities that nobody reads.

        Args:
            action: `[7]`; the controller clips it to [-1, 1].
        """
        env, robot, data = self.env, self.robot, self.env.sim.data._data
        arm, gripper = np.split(action, [robot.controller.control_dim])
        least, most = robot.torque_limits
        env.sim.forward = lambda: forward_again(self.model, data)  # the controller asks for one
        try:
            for small_step in range(int(env.control_timestep / env.model_timestep)):
                mujoco.mj_forward(self.model, data)
                if small_step == 0:
                    robot.controller.set_goal(arm)
                torques = np.clip(robot.controller.run_controller(), least, most)
                robot.grip_action(robot.gripper, gripper)
                data.ctrl[robot._ref_joint_actuator_indexes] = torques
                step_again(self.model, data)
                env._update_observables()
        finally:
            del env.sim.forward  # the class's own is there again
        env._post_process()
        return bool(env._check_success())

    def restore(self, state: np.ndarray) -> None:
        """Put the row in the scene into a flat state: time, positions, velocities."""
        self.env.sim.set_state_from_flattened(state)
        self.env.sim.forward()
        self.env._check_success()
        self.env._post_process()
        self.env._update_observables(force=True)

    @contextmanager
    def shown(self, row: RowState) -> Iterator[mujoco.MjData]:
        """Data to draw what a row last observed, and the model in the colours of that moment."""
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
def _leaving_numpys_generator() -> Iterator[None]:
    """LIBERO draws from numpy's global generator, where it builds a scene too."""
    before = np.random.get_state()
    try:
        yield
    finally:
        np.random.set_state(before)


def _keeping(kind: type) -> type:
    """A kind of robosuite's envs whose `built` is what episodes change in the model, as compiled:
    robosuite resets it before anyone else sees it."""

    def compile_and_keep(env: Any, xml_string: str | None = None) -> None:
        initialize(env, xml_string)
        env.built = Kept(env.sim.model._model, CHANGED)

    initialize = attrgetter("_initialize_sim")(kind)
    # LIBERO compares the name of the class with the one in the task's file
    return type(kind.__name__, (kind,), {"_initialize_sim": compile_and_keep})
