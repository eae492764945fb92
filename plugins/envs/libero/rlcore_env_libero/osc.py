"""Compile the arithmetic of robosuite's OSC_POSE controller between its products of matrices.

robosuite 1.4.0 does this arithmetic in about forty numpy operations on three to 49 numbers each,
which cost more to call than to compute. Here two functions do the same operations in the same
order, compiled by robosuite's own decorator: numba, which caches the machine code on the disk.
They write into arrays of the caller, because returning an array costs ten times as much as
passing one.

Two BLAS libraries are involved, which may round differently: that of scipy in functions that numba
compiles, and that of numpy elsewhere. Each product stays with the one that robosuite computes it
with, so :class:`rlcore_env_libero.arm.Arm` computes five products outside of these functions.

This module imports robosuite; import it after :func:`rlcore_env_libero.quiet.load_libero`.
"""

from __future__ import annotations

import numpy as np
from robosuite.utils.control_utils import nullspace_torques, opspace_matrices, orientation_error
from robosuite.utils.numba import jit_decorator


@jit_decorator
def torque_factors(
    inertia: np.ndarray,
    inertia_entries: np.ndarray,
    jacobian_position: np.ndarray,
    jacobian_orientation: np.ndarray,
    joints: np.ndarray,
    joint_positions: np.ndarray,
    qpos: np.ndarray,
    qvel: np.ndarray,
    bias: np.ndarray,
    position: np.ndarray,
    orientation: np.ndarray,
    velocity: np.ndarray,
    angular_velocity: np.ndarray,
    goal_position: np.ndarray,
    goal_orientation: np.ndarray,
    initial_joint: np.ndarray,
    stiffness: np.ndarray,
    damping: np.ndarray,
    out_force: np.ndarray,
    out_torque: np.ndarray,
    out_lambda_position: np.ndarray,
    out_lambda_orientation: np.ndarray,
    out_jacobian: np.ndarray,
    out_gravity: np.ndarray,
    out_redundant: np.ndarray,
) -> None:
    """Compute what `Controller.update` and `run_controller` multiply and add up to torques.

    Args:
        inertia: MuJoCo's packed inertia `qM`.
        inertia_entries: where in it the inertia of the arm's joints is, `[7, 7]`.
        jacobian_position, jacobian_orientation: of the hand, `[3, V]`.
        joints, joint_positions: indices of the arm's 7 joints in `qvel` and in `qpos`.
        qpos, qvel, bias: positions, velocities and bias forces of the scene.
        position, orientation: pose of the hand, `[3]` in metres and `[3, 3]`.
        velocity, angular_velocity: of the hand, `[3]` in m/s and rad/s.
        goal_position, goal_orientation: where the hand should be.
        initial_joint: positions of the joints at the reset, to which redundant motion returns.
        stiffness, damping: gains of position and orientation, `[6]`.
        out_force, out_torque: wanted at the hand, `[3]`, before these are multiplied by inertia.
        out_lambda_position, out_lambda_orientation: inertia of the hand, `[3, 3]`.
        out_jacobian: of the hand by the arm's joints, `[6, 7]`, columns contiguous.
        out_gravity: summand of the joints' torques, `[7]`.
        out_redundant: summand for the motion that leaves the hand where it is, `[7]`.
    """
    count = len(joints)
    # robosuite's arrays have contiguous columns; BLAS and LAPACK round differently for rows
    mass = np.empty((count, count)).T
    j_position = np.empty((count, 3)).T
    j_orientation = np.empty((count, 3)).T
    angles = np.empty(count)
    speeds = np.empty(count)
    for column in range(count):
        joint = joints[column]
        out_gravity[column] = bias[joint]
        angles[column] = qpos[joint_positions[column]]
        speeds[column] = qvel[joint]
        for row in range(count):
            mass[row, column] = inertia[inertia_entries[row, column]]
        for axis in range(3):
            j_position[axis, column] = jacobian_position[axis, joint]
            j_orientation[axis, column] = jacobian_orientation[axis, joint]
            out_jacobian[axis, column] = jacobian_position[axis, joint]
            out_jacobian[3 + axis, column] = jacobian_orientation[axis, joint]
    turn = orientation_error(goal_orientation, orientation)
    for axis in range(3):
        error = goal_position[axis] - position[axis]
        out_force[axis] = error * stiffness[axis] + -velocity[axis] * damping[axis]
        out_torque[axis] = (
            turn[axis] * stiffness[3 + axis] + -angular_velocity[axis] * damping[3 + axis]
        )
    _, lambda_position, lambda_orientation, nullspace = opspace_matrices(
        mass, out_jacobian, j_position, j_orientation
    )
    redundant = nullspace_torques(mass, nullspace, initial_joint, angles, speeds)
    for joint in range(count):
        out_redundant[joint] = redundant[joint]
    for row in range(3):
        for column in range(3):
            out_lambda_position[row, column] = lambda_position[row, column]
            out_lambda_orientation[row, column] = lambda_orientation[row, column]


@jit_decorator
def write_controls(
    ctrl: np.ndarray,
    actuators: np.ndarray,
    torques: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    fingers: np.ndarray,
    opening: np.ndarray,
    change: np.ndarray,
    middle: np.ndarray,
    half_range: np.ndarray,
) -> None:
    """Write the controls of one substep, as `SingleArm.control` and `PandaGripper` do.

    Args:
        ctrl: controls of the scene; written.
        actuators, fingers: indices of the arm's 7 actuators and the gripper's 2.
        torques, least, most: torques of the joints and their limits, `[7]`.
        opening: action of the gripper, `[2]` in [-1, 1]; `change` is added to it.
        change: what a substep adds.
        middle, half_range: of the fingers' targets, `[2]` in metres.
    """
    for joint, actuator in enumerate(actuators):
        ctrl[actuator] = np.minimum(np.maximum(torques[joint], least[joint]), most[joint])
    for finger, actuator in enumerate(fingers):
        opening[finger] = np.minimum(np.maximum(opening[finger] + change[finger], -1.0), 1.0)
        ctrl[actuator] = middle[finger] + half_range[finger] * opening[finger]
