"""Drive the arm and the gripper as robosuite does, bit for bit, in less time.

robosuite's OSC_POSE controller (operational space control, Khatib 1987) runs in each of the 25
substeps of a step. Most of its time goes into looking up sites, joints and actuators by name, and
into computing each Jacobian twice. Here the same operations run in the same order, on arrays of
the same memory layout (BLAS and LAPACK round differently for another one), and indices are looked
up once. The matrix functions are robosuite's own, which numba compiles.
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
        from robosuite.utils import control_utils  # imported only after its logging is off

        controller = robot.controller
        self._model = model
        self._robot = robot
        self._matrices = control_utils.opspace_matrices
        self._orientation_error = control_utils.orientation_error
        self._nullspace_torques = control_utils.nullspace_torques
        self._site = model.site(controller.eef_name).id
        self._positions = np.array(controller.qpos_index)
        self._velocities = np.array(controller.qvel_index)
        self._actuators = np.array(robot._ref_joint_actuator_indexes)
        self._least, self._most = robot.torque_limits
        # arrays of their own, aligned as robosuite's: BLAS may round by alignment
        self._jacobian_position = np.zeros((3, model.nv))
        self._jacobian_orientation = np.zeros((3, model.nv))
        self._inertia = np.zeros((model.nv, model.nv))
        gripper = robot.gripper
        self._fingers = np.array([model.actuator(name).id for name in gripper.actuators])
        low, high = model.actuator_ctrlrange[self._fingers].T
        self._middle = 0.5 * (high + low)
        self._half_range = 0.5 * (high - low)

    def set_goal(self, data: mujoco.MjData, action: np.ndarray) -> None:
        """Set the controller's goal relative to the hand's pose.

        Args:
            data: simulation data after a forward pass.
            action: `[6]`, a change of position and orientation in [-1, 1]; scaled by robosuite.
        """
        controller = self._robot.controller
        up_to_date = not controller.new_update
        if not up_to_date:
            controller.ee_pos = data.site_xpos[self._site].copy()
            controller.ee_ori_mat = data.site_xmat[self._site].reshape(3, 3).copy()
            controller.new_update = False  # set_goal needs no more than this pose
        controller.set_goal(action)
        controller.new_update = not up_to_date

    def actuate(self, data: mujoco.MjData, gripper_action: np.ndarray) -> None:
        """Write the torques of one substep, and the targets of the fingers, into `data.ctrl`.

        Args:
            data: simulation data after a forward pass.
            gripper_action: `[1]`; its sign opens or closes the gripper.
        """
        controller = self._robot.controller
        if controller.new_update:
            # the second pass of robosuite's controller changes the constraint solver's warm start
            forward_again(self._model, data)
            torques = self._torques(data)
        else:
            # robosuite acts in an episode's first substep on the state at its reset
            torques = controller.run_controller()
        # two ufuncs: np.clip costs three times as much on seven numbers
        data.ctrl[self._actuators] = np.minimum(np.maximum(torques, self._least), self._most)
        target = self._robot.gripper.format_action(gripper_action)
        data.ctrl[self._fingers] = self._middle + self._half_range * target

    def _torques(self, data: mujoco.MjData) -> np.ndarray:
        """Return the torques of the joints, float64 `[7]`, in newton metres."""
        controller = self._robot.controller
        model = self._model
        joints = self._velocities
        speeds = data.qvel
        jacobian_position = self._jacobian_position
        jacobian_orientation = self._jacobian_orientation
        mujoco.mj_jacSite(model, data, jacobian_position, jacobian_orientation, self._site)
        mujoco.mj_fullM(model, self._inertia, data.qM)
        position = data.site_xpos[self._site]
        orientation = data.site_xmat[self._site].reshape(3, 3)
        velocity = np.dot(jacobian_position, speeds)
        angular_velocity = np.dot(jacobian_orientation, speeds)
        mass = self._inertia[joints][:, joints]
        j_position = jacobian_position[:, joints]
        j_orientation = jacobian_orientation[:, joints]
        j_full = np.concatenate([j_position, j_orientation])
        stiffness, damping = controller.kp, controller.kd

        position_error = controller.goal_pos - position
        orientation_error = self._orientation_error(controller.goal_ori, orientation)
        force = position_error * stiffness[:3] + -velocity * damping[:3]
        torque = orientation_error * stiffness[3:6] + -angular_velocity * damping[3:6]
        _, lambda_position, lambda_orientation, nullspace = self._matrices(
            mass, j_full, j_position, j_orientation
        )
        wrench = np.concatenate(
            [np.dot(lambda_position, force), np.dot(lambda_orientation, torque)]
        )
        torques: np.ndarray = np.dot(j_full.T, wrench) + data.qfrc_bias[joints]
        torques += self._nullspace_torques(
            mass,
            nullspace,
            controller.initial_joint,
            data.qpos[self._positions],
            speeds[joints],
        )
        return torques
