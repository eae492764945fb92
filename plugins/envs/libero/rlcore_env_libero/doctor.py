"""Return the rows of `rlcore doctor` for LIBERO. Imports no simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore_mujoco.gl import doctor_checks as gl_checks
from rlcore_simulation.doctor import Row, missing, row
from rlcore_simulation.stand_ins import stand_in

from rlcore.contracts.errors import AssetError, UserError
from rlcore_env_libero import assets
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.present import require_tasks
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec
from rlcore_env_libero.suites import ALL, SUITES

CODE = "libero: LIBERO's own code"
ASSETS = "libero: assets"


def doctor_checks(used: Sequence[LiberoConfig]) -> list[Row]:
    """Return the rows about GL, LIBERO's code and the assets.

    If simulators run in another interpreter, code and assets are checked there when they start.

    Args:
        used: settings of the LIBERO envs of a run. If empty, missing assets are no error, and their
            row tells how to get them.
    """
    pythons_elsewhere = dict.fromkeys(filter(None, (env.interpreter() for env in used)))
    pythons = [env.interpreter() for env in used]
    rows = [
        *gl_checks("libero", pythons),
        *(
            row(CODE, f"checked by {python} when the simulators start")
            for python in pythons_elsewhere
        ),
    ]
    in_process = [env for env in used if env.interpreter() is None]
    if used and not in_process:
        return rows
    tasks = dict.fromkeys(task for env in in_process for task in env_spec(env).tasks)
    try:
        folder = libero_folder()
        require_tasks(folder, tasks)
    except AssetError as error:
        return [*rows, missing(CODE, error)]
    return [*rows, row(CODE, str(folder)), *_assets_rows(in_process)]


def _assets_rows(used: Sequence[LiberoConfig]) -> list[Row]:
    if not used:
        root = assets.assets_folder(None)
        if assets.has_scenes(root):
            return [_files_row(root, SUITES[ALL])]
        return [row(ASSETS, f"not found; to install them: {assets.command_for(root)}")]
    rows = [
        _stand_ins_row()
        if env.stand_ins
        else _files_row(assets.assets_folder(env.assets_path), env_spec(env).tasks)
        for env in used
    ]
    return list({finding["detail"]: finding for finding in rows}.values())


def _stand_ins_row() -> Row:
    try:
        stand_in("libero")
    except UserError as error:
        return missing(ASSETS, error)
    return row(ASSETS, "stand-ins, so no results on LIBERO")


def _files_row(root: Path, tasks: Sequence[str]) -> Row:
    """Return the row about the files of some tasks in a folder."""
    try:
        assets.require_assets(root, tasks)
    except AssetError as error:
        return missing(ASSETS, error)
    return row(ASSETS, str(root))
