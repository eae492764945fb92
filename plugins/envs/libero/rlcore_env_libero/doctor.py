"""The rows of `rlcore doctor` for LIBERO. Imports no simulator."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore_mujoco.gl import doctor_checks as gl_checks

from rlcore.errors import AssetError
from rlcore_env_libero.assets import assets_folder, download_command, require_assets
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.spec import env_spec

ASSETS = "libero: assets"


def doctor_checks(used: Sequence[LiberoConfig]) -> list[dict[str, str]]:
    """GL, LIBERO's code, and the assets of the envs that a run uses, else where to get them."""
    code = {"name": "libero: LIBERO's own code", "status": "ok", "detail": "", "fix": ""}
    try:
        code["detail"] = str(libero_folder())
    except AssetError as error:
        code |= {"status": "missing", "detail": error.message, "fix": error.hint or ""}
        return [*gl_checks("libero"), code]
    return [*gl_checks("libero"), code, *_assets(used)]


def _assets(used: Sequence[LiberoConfig]) -> list[dict[str, str]]:
    if not used:
        root = assets_folder(None)
        found = "are in" if root.is_dir() else "not here; to get them:"
        what = str(root) if root.is_dir() else download_command(root)
        return [{"name": ASSETS, "status": "ok", "detail": f"{found} {what}", "fix": ""}]
    rows: dict[str, dict[str, str]] = {}
    for env in used:
        row = {"name": ASSETS, "status": "ok", "detail": "", "fix": ""}
        if env.stand_ins:
            row["detail"] = "stand-ins, so no results on LIBERO"
        else:
            root = assets_folder(env.assets_path)
            row["detail"] = str(root)
            try:
                require_assets(root, env_spec(env).tasks)
            except AssetError as error:
                row |= {"status": "missing", "detail": error.message, "fix": error.hint or ""}
        rows[row["detail"]] = row
    return list(rows.values())
