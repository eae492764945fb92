"""Partial forward passes, with bitwise identical results in less time.

A simulator that computes torques between forward pass and step makes several forward passes in each
step. Only the first pass has new positions and velocities. The later ones differ by the controls,
and by the constraint solver, which is warm-started from the previous pass: two successive passes
agree except for the last bits. So skipping a whole pass would change bits. But everything that
depends on positions and velocities only (kinematics, contacts, inertia, passive forces) can be
reused.
"""

from __future__ import annotations

import mujoco

_KEEP = mujoco.mjtStage.mjSTAGE_VEL.value
_RUNGE_KUTTA = mujoco.mjtIntegrator.mjINT_RK4.value


def forward_again(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Do what `mj_forward` does, if positions and velocities did not change since the last one."""
    mujoco.mj_forwardSkip(model, data, _KEEP, 0)


def step_again(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Do what `mj_step` does, if positions and velocities did not change since `mj_forward`."""
    mujoco.mj_checkPos(model, data)
    mujoco.mj_checkVel(model, data)
    if model.opt.integrator != _RUNGE_KUTTA:
        mujoco.mj_step2(model, data)
        return
    # mj_step2 would integrate by Euler
    forward_again(model, data)
    mujoco.mj_checkAcc(model, data)
    mujoco.mj_RungeKutta(model, data, 4)
