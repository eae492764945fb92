"""Return the rows of `rlcore doctor` for MetaWorld. Imports no simulator."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import metadata

from rlcore_mujoco.gl import doctor_checks as gl_checks
from rlcore_simulation.interpreters import query_interpreter

from rlcore.contracts.errors import AssetError
from rlcore_env_metaworld.cameras import NEW_CAMERA
from rlcore_env_metaworld.settings import MetaWorldConfig

OLD = "3.0."
NEW = "metaworld==3.1.1"


def doctor_checks(used: Sequence[MetaWorldConfig]) -> list[dict[str, str]]:
    """Return the rows about GL, and about a camera that the installed MetaWorld does not have.

    Args:
        used: settings of the MetaWorld envs of a run; empty without a run.
    """
    rows = gl_checks("metaworld", [env.interpreter() for env in used])
    for env in used:
        python, version = _metaworld(env)
        if env.camera == NEW_CAMERA and version.startswith(OLD):
            row = {
                "name": f"metaworld: camera {NEW_CAMERA}",
                "status": "missing",
                "detail": f"metaworld {version} has none of that name; corner2_published shows the "
                "same view",
                "fix": f"{shlex.quote(python)} -m pip install {NEW}",
            }
            rows += [row] if row not in rows else []
    return rows


def _metaworld(env: MetaWorldConfig) -> tuple[str, str]:
    """Return the interpreter of an env's simulators, and its version of MetaWorld.

    The version is "" if the interpreter has no MetaWorld, which the interpreter's own row reports.
    """
    python = env.interpreter()
    try:
        if python is None:
            return sys.executable, metadata.version("metaworld")
        interpreter = query_interpreter(python)
        return interpreter.executable, interpreter.packages.get("metaworld", "")
    except (AssetError, metadata.PackageNotFoundError):
        return python or sys.executable, ""
