"""The GL library of the tests."""

import os

from rlcore_mujoco.gl import choose_gl

# Tests import MuJoCo into this process; it reads the variable once.
os.environ["MUJOCO_GL"] = choose_gl() or ""
