"""Make a GL context with MuJoCo, as a simulator does before its first frame.

Run as a script by any interpreter that has MuJoCo; it imports nothing else. Exit code 0: a frame
could be drawn. Otherwise the last line of standard error says what is wrong.
"""

import os
import sys

sys.path[:1] = filter(None, sys.path[:1])  # a `mujoco.py` in the current folder is not MuJoCo


def try_context() -> None:
    """Go as far as an offscreen framebuffer: with some drivers a context is made that has none."""
    import mujoco
    from mujoco.gl_context import GLContext

    context = GLContext(64, 64)
    context.make_current()
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    uploaded = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, uploaded)


if __name__ == "__main__":
    try:
        try_context()
    except BaseException as error:  # a driver may fail in any way
        try:
            said = " ".join(str(error).split())
        except Exception:  # PyOpenGL's errors can't always be written
            said = ""
        sys.stderr.write("\n" + type(error).__name__ + (": " + said if said else "") + "\n")
        sys.stderr.flush()
        os._exit(1)  # at once: contexts that were half made complain as they are deleted
    os._exit(0)  # software GL complains in its exit handlers
