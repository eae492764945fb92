"""Drive the arm and the gripper as robosuite does, bit for bit, in less time.

robosuite's OSC_POSE controller (operational space control, Khatib 1987) runs in each of the 25
substeps of a step. Most of its time goes into looking up sites, joints and actuators by name, into
computing each Jacobian twice, and into calls of numpy on a few numbers. Here the same operations
run in the same order, on arrays of the same memory layout (BLAS and LAPACK round differently for
another one). Names are looked up once, and :mod:`.osc` compiles what lies between the products.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from rlcore_mujoco.physics import forward_again


class Arm:
    """Controls of a robot in its compiled model.

    Args:
        model: compiled model of the scene.
        robot: robosuite's robot with an OSC_POSE controller, fixed gains and no interpolators.
    """

    def __init__(self, model: mujoco.MjModel, robot: Any) -> None:
        from rlcore_env_libero import osc  # imports robosuite, so after its logging is off

        self._torque_factors = osc.torque_factors
        self._write_controls = osc.write_controls
        self._model = model
        self._robot = robot
        controller = robot.controller
        self._site = model.site(controller.eef_name).id
        self._joint_positions = np.array(controller.qpos_index)
        self._joints = np.array(controller.qvel_index)
        self._inertia_entries = inertia_entries(model, self._joints)
        self._stiffness = controller.kp
        self._damping = controller.kd
        self._actuators = np.array(robot._ref_joint_actuator_indexes)
        self._least, self._most = robot.torque_limits
        gripper = robot.gripper
        self._fingers = np.array([model.actuator(name).id for name in gripper.actuators])
        low, high = model.actuator_ctrlrange[self._fingers].T
        self._middle = 0.5 * (high + low)
        self._half_range = 0.5 * (high - low)
        self._finger_speeds = np.array([-1.0, 1.0]) * gripper.speed
        self._finger_changes = np.zeros(2)
        self._data: mujoco.MjData | None = None
        # arrays of their own, aligned as robosuite's: BLAS may round by alignment
        self._jacobian_position = np.zeros((3, model.nv))
        self._jacobian_orientation = np.zeros((3, model.nv))
        self._velocity = np.zeros(3)
        self._angular_velocity = np.zeros(3)
        self._force = np.zeros(3)
        self._torque = np.zeros(3)
        self._lambda_position = np.zeros((3, 3), order="F")
        self._lambda_orientation = np.zeros((3, 3), order="F")
        self._jacobian = np.zeros((6, len(self._joints)), order="F")
        self._wrench = np.zeros(6)
        self._gravity = np.zeros(len(self._joints))
        self._redundant = np.zeros(len(self._joints))

    def begin_step(self, data: mujoco.MjData, action: np.ndarray) -> None:
        """Set the goals of the arm, relative to the hand's pose, and of the gripper.

        Args:
            data: simulation data after a forward pass.
            action: `[7]`: changes of position and orientation in [-1, 1], scaled by robosuite, and
                a number whose sign opens or closes the gripper.
        """
        if data is not self._data:
            self._look_up(data)
        controller = self._robot.controller
        up_to_date = not controller.new_update
        if not up_to_date:
            controller.ee_pos = self._position.copy()
            controller.ee_ori_mat = self._orientation.copy()
            controller.new_update = False  # set_goal needs no more than this pose
        controller.set_goal(action[:-1])
        controller.new_update = not up_to_date
        gripper = self._robot.gripper
        # after a reset, robosuite has one number for both fingers
        gripper.current_action = np.broadcast_to(gripper.current_action, 2).copy()
        self._finger_changes = self._finger_speeds * np.sign(action[-1:])

    def actuate(self) -> None:
        """Write the torques of one substep, and the targets of the fingers, into `data.ctrl`.

        The data are those of :meth:`begin_step`, after a forward pass.
        """
        controller = self._robot.controller
        if controller.new_update:
            # the second pass of robosuite's controller changes the constraint solver's warm start
            forward_again(self._model, self._data)
            torques = self._torques()
        else:
            # robosuite acts in an episode's first substep on the state at its reset
            torques = controller.run_controller()
        self._write_controls(
            self._ctrl,
            self._actuators,
            torques,
            self._least,
            self._most,
            self._fingers,
            self._robot.gripper.current_action,
            self._finger_changes,
            self._middle,
            self._half_range,
        )

    def _look_up(self, data: mujoco.MjData) -> None:
        """Look up the arrays of `data` once: each access costs MuJoCo's bindings a microsecond."""
        self._data = data
        self._qpos = data.qpos
        self._qvel = data.qvel
        self._bias = data.qfrc_bias
        self._ctrl = data.ctrl
        self._inertia = data.qM
        self._position = data.site_xpos[self._site]
        self._orientation = data.site_xmat[self._site].reshape(3, 3)

    def _torques(self) -> np.ndarray:
        """Return the torques of the joints, float64 `[7]`, in newton metres."""
        controller = self._robot.controller
        mujoco.mj_jacSite(
            self._model,
            self._data,
            self._jacobian_position,
            self._jacobian_orientation,
            self._site,
        )
        # the method of an array, as np.dot takes twice as long
        self._jacobian_position.dot(self._qvel, self._velocity)
        self._jacobian_orientation.dot(self._qvel, self._angular_velocity)
        self._torque_factors(
            self._inertia,
            self._inertia_entries,
            self._jacobian_position,
            self._jacobian_orientation,
            self._joints,
            self._joint_positions,
            self._qpos,
            self._qvel,
            self._bias,
            self._position,
            self._orientation,
            self._velocity,
            self._angular_velocity,
            controller.goal_pos,
            controller.goal_ori,
            controller.initial_joint,
            self._stiffness,
            self._damping,
            self._force,
            self._torque,
            self._lambda_position,
            self._lambda_orientation,
            self._jacobian,
            self._gravity,
            self._redundant,
        )
        self._wrench[:3] = self._lambda_position.dot(self._force)
        self._wrench[3:] = self._lambda_orientation.dot(self._torque)
        torques: np.ndarray = self._jacobian.T.dot(self._wrench)
        torques += self._gravity
        torques += self._redundant
        return torques


def inertia_entries(model: mujoco.MjModel, joints: np.ndarray) -> np.ndarray:
    """Return where MuJoCo's packed inertia `qM` has that of some joints.

    Args:
        joints: degrees of freedom `[J]` of one chain, so each pair of them has an entry.

    Returns:
        indices `[J, J]`.
    """
    numbers = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, numbers, np.arange(1.0, model.nM + 1))
    return numbers[joints][:, joints].astype(int) - 1
