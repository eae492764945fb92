"""Forward passes that need not be made in full. Same bits, less time.

A simulator that computes torques between forward pass and step makes several passes in each step.
Only the first one meets new positions and velocities. The later ones differ by the controls, and by
the solver of constraints, which begins where the last pass ended: two passes in a row agree but for
the last bits. So a pass can't be left out if bits matter, but what depends on positions and
velocities alone (kinematics, contacts, inertia, passive forces) can be kept.
"""

from __future__ import annotations

import mujoco

_KEEP = mujoco.mjtStage.mjSTAGE_VEL.value
_INTEGRATORS = {
    mujoco.mjtIntegrator.mjINT_EULER.value: mujoco.mj_Euler,
    mujoco.mjtIntegrator.mjINT_RK4.value: lambda model, data: mujoco.mj_RungeKutta(model, data, 4),
    mujoco.mjtIntegrator.mjINT_IMPLICIT.value: mujoco.mj_implicit,
    mujoco.mjtIntegrator.mjINT_IMPLICITFAST.value: mujoco.mj_implicit,
}


def forward_again(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """`mj_forward`, if positions and velocities have not changed since the last one."""
    mujoco.mj_forwardSkip(model, data, _KEEP, 0)


def step_again(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """`mj_step`, if positions and velocities have not changed since the last `mj_forward`."""
    mujoco.mj_checkPos(model, data)
    mujoco.mj_checkVel(model, data)
    forward_again(model, data)
    mujoco.mj_checkAcc(model, data)
    _INTEGRATORS[model.opt.integrator](model, data)
