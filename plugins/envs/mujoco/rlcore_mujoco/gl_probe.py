"""Make a GL context with MuJoCo, as a simulator does before its first frame.

This script runs in any interpreter that has MuJoCo, and imports no other package. Its exit code is
0 if MuJoCo can render. Otherwise the last line of standard error gives the reason.
"""

import os
import sys

# `-c` puts "" in front; without it a `mujoco.py` in the current folder is not imported
sys.path[:1] = filter(None, sys.path[:1])


def try_context() -> None:
    """Make a GL context and select its offscreen framebuffer.

    Some drivers make a context without offscreen framebuffer, so the context alone proves too
    little.
    """
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
    except BaseException as error:  # drivers may raise any class
        try:
            message = " ".join(str(error).split())
        except Exception:  # str() fails for some errors of PyOpenGL
            message = ""
        sys.stderr.write("\n" + type(error).__name__ + (": " + message if message else "") + "\n")
        sys.stderr.flush()
        # skip finalizers: half-initialised contexts write errors when they are deleted
        os._exit(1)
    os._exit(0)  # skip exit handlers, in which software GL writes errors
