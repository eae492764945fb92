"""Shortened passes give the bits of full ones, and the model goes back to what was built."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from rlcore_mujoco.model import Kept, array_of, differing_arrays
from rlcore_mujoco.physics import forward_again, step_again

# Two boxes that tumble on each other, pushed by a motor: contacts, friction, sensors of all stages.
SCENE = """
<mujoco>
  <option integrator="{integrator}" cone="elliptic"/>
  <worldbody>
    <light pos="0 0 2"/>
    <geom type="plane" size="2 2 .1"/>
    <body name="low" pos="0 0 .12">
      <joint name="slide" type="slide" axis="1 0 0" damping=".1"/>
      <joint type="slide" axis="0 0 1"/>
      <joint type="hinge" axis="0 1 0"/>
      <geom type="box" size=".1 .1 .1"/><site name="middle"/>
    </body>
    <body name="high" pos=".03 0 .4"><freejoint/><geom type="box" size=".08 .1 .1"/></body>
  </worldbody>
  <actuator><motor joint="slide" gear="20"/></actuator>
  <sensor>
    <framepos objtype="body" objname="low"/><framelinvel objtype="body" objname="low"/>
    <force site="middle"/>
  </sensor>
</mujoco>
"""


def bits(data: mujoco.MjData) -> bytes:
    parts = (
        data.qpos,
        data.qvel,
        data.qacc,
        data.qacc_warmstart,
        data.sensordata,
        data.xpos,
        data.qfrc_constraint,
        data.ctrl,
        [data.time],
    )
    return np.concatenate([np.ravel(part) for part in parts]).tobytes()


def course(integrator: str, forward, step) -> tuple[list[bytes], int]:
    """The states of 200 steps of three passes each, and the most contacts there were."""
    model = mujoco.MjModel.from_xml_string(SCENE.format(integrator=integrator))
    data = mujoco.MjData(model)
    controls = np.random.default_rng(0).uniform(-1, 1, 200)
    states, contacts = [], 0
    for control in controls:
        mujoco.mj_forward(model, data)
        forward(model, data)  # as a controller does that wants to be sure
        data.ctrl[:] = control
        step(model, data)
        states.append(bits(data))
        contacts = max(contacts, data.ncon)
    return states, contacts


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicit", "implicitfast"])
def test_shortened_passes_give_the_bits_of_full_ones(integrator: str) -> None:
    full, contacts = course(integrator, mujoco.mj_forward, mujoco.mj_step)
    shortened, _ = course(integrator, forward_again, step_again)
    assert contacts >= 4  # else the solver has nothing to do
    assert full == shortened
    left_out, _ = course(integrator, lambda model, data: None, mujoco.mj_step)
    assert left_out[-1] != full[-1]  # a pass that is left out is not the same


def test_a_model_is_restored_as_it_was_built() -> None:
    model = mujoco.MjModel.from_xml_string(SCENE.format(integrator="Euler"))
    fresh = copy.copy(model)
    assert differing_arrays(model, fresh) == set()
    built, left = Kept(model, ("body_pos", "site_rgba")), Kept(model, ("body_pos", "site_rgba"))
    array_of(model, "body_pos")[1] += 0.5
    model.site_rgba[0, 3] = 0.25
    model.light_pos[0, 2] = 3.0
    assert differing_arrays(model, fresh) == {"body_pos", "site_rgba", "light_pos"}
    left.take(model)
    built.put(model)
    assert differing_arrays(model, fresh) == {"light_pos"}  # was not among those kept
    left.put(model)
    assert model.body_pos[1, 2] == fresh.body_pos[1, 2] + 0.5 and model.site_rgba[0, 3] == 0.25
